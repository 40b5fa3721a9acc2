"""A versioned object store: deleting puts a marker on top, removing the marker brings it back.

    put ──> v1 ──put──> v2 ──delete──> marker m3 ──remove_marker──> v2 again

As in S3, a file exists while its newest version is no marker.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from takeback.model.handler import Absent, Affected, Attempt, Handler, Original, Performed
from takeback.testing.journal import Entry
from takeback.testing.provider import (
    Provider,
    ProviderBusy,
    ProviderDown,
    ProviderFault,
    ProviderRefused,
    told_as_outcomes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVersion:
    """One version of a file; ``content`` is None for a delete marker."""

    id: str
    content: bytes | None

    @property
    def is_marker(self) -> bool:
        """Whether it says that the file is deleted."""
        return self.content is None


class FakeFiles:
    """The store in ``directory``, with ``files`` (path to content) in it from the start.

    Every process that opens the directory names the same files. Methods raise ProviderError.
    """

    def __init__(
        self,
        directory: Path | Callable[[], Path],
        *,
        files: Mapping[str, bytes] | None = None,
        key_ttl: timedelta = timedelta(hours=24),
    ) -> None:
        self._files = dict(files or {})
        self._provider = Provider(directory, "files", key_ttl=key_ttl)

    def put(self, path: str, content: bytes, *, key: str) -> str:
        """Writes a new version; its id."""
        text = base64.b64encode(content).decode("ascii")
        asked = {"path": path, "content": text}
        answer = self._provider.request(
            key, "put", asked, lambda entries: {**asked, "version": f"v{len(entries)}"}
        )
        return str(answer["version"])

    def delete(self, path: str, *, key: str) -> str:
        """Puts a delete marker on top; its id."""

        def decide(entries: Sequence[Entry]) -> Mapping[str, Any]:
            versions = self._fold(entries).get(path, [])
            if not versions or versions[-1].is_marker:
                raise ProviderRefused("no_such_file", f"There is no file {path!r}.")
            return {"path": path, "version": f"m{len(entries)}"}

        return str(self._provider.request(key, "delete", {"path": path}, decide)["version"])

    def remove_marker(self, path: str, marker: str, *, key: str) -> None:
        """Removes the delete marker ``marker`` while it is the newest version of ``path``."""

        def decide(entries: Sequence[Entry]) -> Mapping[str, Any]:
            versions = self._fold(entries).get(path, [])
            if all(version.id != marker for version in versions):
                raise ProviderRefused("no_such_marker", f"{path!r} has no marker {marker!r}.")
            if versions[-1].id != marker:
                raise ProviderRefused(
                    "not_newest", f"{path!r} was written again since: its newest version stands."
                )
            return {"path": path, "version": marker}

        asked = {"path": path, "version": marker}
        self._provider.request(key, "remove_marker", asked, decide)

    def look_up(self, key: str) -> Mapping[str, Any] | None:
        """The path and version of what was done under ``key``; None when nothing was."""
        return self._provider.look_up(key)

    def exists(self, path: str) -> bool:
        """Whether a read would find the file."""
        versions = self.versions(path)
        return bool(versions) and not versions[-1].is_marker

    def read(self, path: str) -> bytes:
        """The newest content. Raises ProviderRefused when the file does not exist."""
        versions = self.versions(path)
        content = versions[-1].content if versions else None
        if content is None:
            raise ProviderRefused("no_such_file", f"There is no file {path!r}.")
        return content

    def versions(self, path: str) -> list[FileVersion]:
        """Every version of ``path``, markers included, oldest first."""
        return self._fold(self._provider.entries()).get(path, [])

    @property
    def requests(self) -> list[str]:
        """The key of each request that has arrived, in order, replays and failures included."""
        return [one["key"] for one in self._provider.entries() if one["event"] == "arrived"]

    def inject(self, fault: ProviderFault, *, times: int = 1, seconds: float = 30.0) -> None:
        """Makes ``fault`` happen to the next ``times`` requests; SLOW takes ``seconds``."""
        self._provider.inject(fault, times=times, seconds=seconds)

    def advance(self, span: timedelta) -> None:
        """Moves the provider's clock on; it stands still otherwise."""
        self._provider.advance(span)

    def release(self) -> None:
        """Lets the requests go on that are slow at this moment."""
        self._provider.release()

    def wait_for_slow(self, count: int = 1, *, seconds_max: float = 10.0) -> bool:
        """Whether ``count`` requests in all have become slow, waiting up to ``seconds_max``."""
        return self._provider.wait_for_slow(count, seconds_max=seconds_max)

    def _fold(self, entries: Sequence[Entry]) -> dict[str, list[FileVersion]]:
        state = {
            path: [FileVersion(id="v0", content=content)] for path, content in self._files.items()
        }
        for entry in entries:
            if entry["event"] == "committed":
                answer = entry["answer"]
                versions = state.setdefault(answer["path"], [])
                match entry["action"]:
                    case "put":
                        content = base64.b64decode(answer["content"])
                        versions.append(FileVersion(id=answer["version"], content=content))
                    case "delete":
                        versions.append(FileVersion(id=answer["version"], content=None))
                    case "remove_marker":
                        versions.pop()
        return state


def delete_handler(files: FakeFiles) -> Handler:
    """A handler that deletes a file; its arguments have path."""

    def perform(arguments: Any, attempt: Attempt) -> Performed:
        with told_as_outcomes():
            marker = files.delete(arguments.path, key=attempt.provider_key)
        return _performed(arguments.path, marker)

    def find(arguments: Any, attempt: Attempt) -> Performed | Absent | None:
        try:
            answer = files.look_up(attempt.provider_key)
        except (ProviderDown, ProviderBusy):
            return None
        return Absent() if answer is None else _performed(answer["path"], answer["version"])

    def restore(original: Original, attempt: Attempt) -> Performed:
        path, marker = original.result["path"], original.result["marker"]
        with told_as_outcomes():
            files.remove_marker(path, marker, key=attempt.provider_key)
        return _performed(path, marker)

    return Handler(perform=perform, find=find, restore=restore)


def _performed(path: str, marker: str) -> Performed:
    return Performed(
        result={"path": path, "marker": marker}, affected=[Affected(kind="file", id=path)]
    )
