"""What all fake providers have in common with real ones: keyed requests, and ways to fail.

A request is ``(key, action, parameters)``. Within ``key_ttl`` the same key gets the same answer, a
refusal too; with other parameters it is refused. A second request under a key whose first one is
still under way is told so, and not made to wait. State lies in a directory, so that callers and
workers in different processes, and whoever looks afterwards, see one provider.

The provider's clock stands still until ``advance``: no test waits for a key to expire.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from takeback.model.errors import NotDispatched, OutcomeUnknown, Rejected
from takeback.testing.journal import Entry, Journal, only_one

_POLL_SECONDS = 0.005


class ProviderFault(StrEnum):
    """One way in which a request fails."""

    DOWN = "down"
    """The connection is refused: the request never arrives."""
    BUSY = "busy"
    """Said to be under way already (409), though the key may be new."""
    FAIL_BEFORE_COMMIT = "fail_before_commit"
    """It arrives, nothing comes of it, and no answer comes back."""
    DROP_ANSWER = "drop_answer"
    """It is carried out, and no answer comes back."""
    SLOW = "slow"
    """It is carried out only after some seconds, or when ``release`` is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    kind: ProviderFault | None = None
    seconds: float = 0.0


class ProviderError(Exception):
    """Everything that a fake provider raises; what a client of a real one would see."""


class ProviderDown(ProviderError):
    """The connection was refused."""


class ProviderBusy(ProviderError):
    """Another request under this key is still under way: what becomes of it is open."""


class AnswerLost(ProviderError):
    """The request was sent and no answer came: it may have been carried out."""


class ProviderRefused(ProviderError):
    """The provider says no, and means it; ``alternatives`` are what it would say yes to."""

    def __init__(
        self, code: str, message: str, *, alternatives: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.alternatives = tuple(alternatives)


class Provider:
    """Requests, answers and faults of the provider ``name`` in ``directory``.

    ``directory`` may be a function, asked at each request, for settings that come later.
    """

    def __init__(
        self, directory: Path | Callable[[], Path], name: str, *, key_ttl: timedelta
    ) -> None:
        self._directory = directory
        self._name = name
        self._key_ttl = key_ttl
        self._last_journal = Journal(Path())

    def request(
        self,
        key: str,
        action: str,
        parameters: Mapping[str, Any],
        decide: Callable[[Sequence[Entry]], Mapping[str, Any]],
    ) -> Mapping[str, Any]:
        """The answer under ``key``: the stored one, or what ``decide`` makes of the entries.

        ``decide`` runs alone, and refuses by raising ProviderRefused. Raises ProviderError.
        """
        with ExitStack() as until_answered:
            fault = self._arrive(key, action, until_answered)
            if fault.kind is ProviderFault.FAIL_BEFORE_COMMIT:
                raise AnswerLost(f"{self._name}: connection reset")
            if fault.kind is ProviderFault.SLOW:
                self._be_slow(fault.seconds)
            answer = self._commit(key, action, parameters, decide)
        if fault.kind is ProviderFault.DROP_ANSWER:
            raise AnswerLost(f"{self._name}: connection reset")
        return answer

    def look_up(self, key: str) -> Mapping[str, Any] | None:
        """What was carried out under ``key``, however long ago; None when nothing was.

        Raises ProviderDown, or ProviderBusy while it is still under way.
        """
        with self._journal().exclusive() as (entries, append):
            if _next_fault(entries).kind is ProviderFault.DOWN:
                append({"event": "fault_made"})
                raise ProviderDown(f"{self._name}: connection refused")
            with only_one(self._key_file(key)) as alone:
                if not alone:
                    raise ProviderBusy(f"{self._name}: a request under this key is under way")
            for entry in reversed(entries):
                if entry["event"] == "committed" and entry["key"] == key:
                    answer: Mapping[str, Any] = entry["answer"]
                    return answer
        return None

    def inject(self, fault: ProviderFault, *, times: int, seconds: float) -> None:
        """Queues ``fault`` for the next ``times`` requests; ``seconds`` is how long SLOW takes."""
        if times < 1:
            raise ValueError(f"times={times}: a fault is for 1 request or more")
        for _ in range(times):
            self.append({"event": "fault_queued", "fault": fault, "seconds": seconds})

    def advance(self, span: timedelta) -> None:
        """Moves the provider's clock on, for instance past ``key_ttl``."""
        self.append({"event": "time_passed", "seconds": span.total_seconds()})

    def release(self) -> None:
        """Ends the slowness of every request that is slow at this moment."""
        self.append({"event": "released"})

    def wait_for_slow(self, count: int, *, seconds_max: float) -> bool:
        """Whether ``count`` requests in all have become slow, waiting up to ``seconds_max``."""
        return self._wait(
            lambda entries: _count(entries, "slowed") >= count, seconds_max=seconds_max
        )

    def entries(self) -> list[Entry]:
        """Everything that has happened, in order."""
        with self._journal().exclusive() as (entries, _):
            return list(entries)

    def append(self, entry: Entry) -> None:
        """Writes one more thing that happened."""
        with self._journal().exclusive() as (_, append):
            append(entry)

    def _journal(self) -> Journal:
        directory = self._directory if isinstance(self._directory, Path) else self._directory()
        path = directory / f"{self._name}.jsonl"
        if self._last_journal.path != path:
            self._last_journal = Journal(path)
        return self._last_journal

    def _key_file(self, key: str) -> Path:
        digest = hashlib.sha256(key.encode()).hexdigest()
        return self._journal().path.with_suffix(".keys") / digest

    def _arrive(self, key: str, action: str, until_answered: ExitStack) -> _Fault:
        """Takes a request in, and the key for as long as it is under way; the fault to make."""
        with self._journal().exclusive() as (entries, append):
            fault = _next_fault(entries)
            if fault.kind is not None:
                append({"event": "fault_made"})
            if fault.kind is ProviderFault.DOWN:
                raise ProviderDown(f"{self._name}: connection refused")
            append({"event": "arrived", "key": key, "action": action})
            alone = until_answered.enter_context(only_one(self._key_file(key)))
            if not alone or fault.kind is ProviderFault.BUSY:
                raise ProviderBusy(f"{self._name}: a request under this key is under way")
            return fault

    def _be_slow(self, seconds: float) -> None:
        with self._journal().exclusive() as (entries, append):
            releases = _count(entries, "released")
            append({"event": "slowed"})
        self._wait(lambda now: _count(now, "released") > releases, seconds_max=seconds)

    def _commit(
        self,
        key: str,
        action: str,
        parameters: Mapping[str, Any],
        decide: Callable[[Sequence[Entry]], Mapping[str, Any]],
    ) -> Mapping[str, Any]:
        with self._journal().exclusive() as (entries, append):
            known = self._known(entries, key)
            if known is not None:
                return _replay(known, action, parameters)
            about = {
                "key": key,
                "action": action,
                "parameters": dict(parameters),
                "at": _seconds_passed(entries),
            }
            try:
                answer = decide(entries)
            except ProviderRefused as exc:
                refusal = {"code": exc.code, "message": exc.message}
                append({**about, **refusal, "event": "refused", "alternatives": exc.alternatives})
                raise
            append({**about, "event": "committed", "answer": answer})
            return answer

    def _known(self, entries: Sequence[Entry], key: str) -> Entry | None:
        oldest = _seconds_passed(entries) - self._key_ttl.total_seconds()
        for entry in reversed(entries):
            if entry["event"] in ("committed", "refused") and entry["key"] == key:
                return entry if entry["at"] > oldest else None
        return None

    def _wait(self, met: Callable[[Sequence[Entry]], bool], *, seconds_max: float) -> bool:
        ends = time.monotonic() + seconds_max
        pause = threading.Event()
        while not met(self.entries()):
            if time.monotonic() >= ends:
                return False
            # Another process ends the wait, by a line in a file: there is nothing to be woken by.
            pause.wait(_POLL_SECONDS)
        return True


def _replay(known: Entry, action: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    if known["action"] != action or known["parameters"] != dict(parameters):
        raise ProviderRefused("key_reused", "This key was used for another request.")
    if known["event"] == "refused":
        raise ProviderRefused(known["code"], known["message"], alternatives=known["alternatives"])
    answer: Mapping[str, Any] = known["answer"]
    return answer


def _next_fault(entries: Sequence[Entry]) -> _Fault:
    queued = [entry for entry in entries if entry["event"] == "fault_queued"]
    for pending in queued[_count(entries, "fault_made") :]:
        return _Fault(kind=ProviderFault(pending["fault"]), seconds=pending["seconds"])
    return _Fault()


def _count(entries: Sequence[Entry], event: str) -> int:
    return sum(entry["event"] == event for entry in entries)


def _seconds_passed(entries: Sequence[Entry]) -> float:
    return sum(float(entry["seconds"]) for entry in entries if entry["event"] == "time_passed")


@contextmanager
def told_as_outcomes() -> Iterator[None]:
    """Turns what the provider raises into what the engine understands.

    ProviderBusy proves nothing: it speaks of an earlier request, which may yet be carried out.
    """
    try:
        yield
    except ProviderDown as exc:
        raise NotDispatched(str(exc)) from exc
    except ProviderRefused as exc:
        raise Rejected(exc.message, alternatives=exc.alternatives) from exc
    except (ProviderBusy, AnswerLost) as exc:
        raise OutcomeUnknown(str(exc)) from exc
