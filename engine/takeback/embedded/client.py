"""What callers use: a share in the one server of a directory.

Starting: the client holds the gate, signs on, and sees to it that the server answers and a keeper
looks after it; the keeper does the work. Stopping: the client signs off; the keeper notices. So a
client that is killed, whenever that is, leaves nothing half done: the keeper goes on without it,
and ends the server when nobody else has signed on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from takeback.embedded.account import server_account
from takeback.embedded.binaries import find_binaries
from takeback.embedded.cluster import cluster_major, environment
from takeback.embedded.lock import PAUSE_S, FileLock, is_held
from takeback.embedded.probe import (
    DATABASE,
    PORT,
    USER,
    Answer,
    Closed,
    Ready,
    Silent,
    ask,
    describe,
)
from takeback.embedded.refusal import unavailable
from takeback.embedded.roster import live_clients, sign_off, sign_on
from takeback.embedded.site import (
    Place,
    Site,
    is_trusted_socket,
    open_site,
    read_place,
    remove_place,
    turn_log,
)
from takeback.model.errors import EmbeddedUnavailable

START_S = 300.0  # longer than the keeper takes to give up, so that its reason arrives
END_S = 30.0  # longer than the keeper takes to end a server by force
GATE_S = START_S + END_S
SILENCES_MAX = 3  # keepers killed before they gave a word; then it is no accident

SOURCE_ROOT = Path(__file__).parents[2]  # for installations that find it by a hook, not by a path

# The keeper finds the modules where its client found them, and gets its request unseen by `ps`.
KEEPER = (
    "import json, sys; request = json.load(sys.stdin); sys.path[:] = request.pop('path'); "
    "from takeback.embedded.keeper import main; main(request)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A share in a running server, until ``release`` or the end of the process.

    A forked child has none: it may connect while its parent lives, or acquire its own.
    ``url`` is as libpq takes it; the role is a superuser. ``version`` is such as "18.6".
    """

    url: str
    version: str
    directory: Path
    _claim: FileLock = field(repr=False)

    def release(self) -> None:
        """Give the share back; whoever is the last one out waits until the server is gone."""
        if not self._claim.released:
            sign_off(self._claim)
            _await_end(Site(directory=self.directory))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def acquire(directory: Path | None = None, *, binaries: Path | None = None) -> Server:
    """A share in the server of ``directory``, which is started (and made) if need be.

    ``directory`` is empty, new or of an earlier start; None is ``default_directory()``.
    ``binaries`` is the bin directory to start it with; a server that runs is taken as it is.
    Raises EmbeddedUnavailable, with the reason and what to do.
    """
    _require_unix()
    site = open_site((directory or default_directory()).expanduser().absolute())
    with pass_gate(site), ExitStack() as undo:
        claim = sign_on(site)
        undo.callback(sign_off, claim)
        place, answer = _ensure_running(site, binaries)
        undo.pop_all()
    return Server(
        url=f"postgresql://{USER}@/{DATABASE}?host={quote(str(place.socket), safe='')}&port={PORT}",
        version=answer.version,
        directory=site.directory,
        _claim=claim,
    )


def stop(directory: Path | None = None) -> None:
    """Stop the server of ``directory`` where it runs; refused while anybody is its client.

    It stops by itself with its last client: this waits for that, and ends one that a killed keeper
    left behind.
    """
    _require_unix()
    site = _existing_site(directory)
    if site is None:
        return
    _refuse_clients(site)
    if not _await_end(site):
        raise unavailable(
            "the server does not stop",
            where=site.directory,
            expected=f"it to be gone within {END_S:g} s",
            next_step=f"read {site.log.name} and end its processes",
        )


def discard(directory: Path | None = None) -> None:
    """Stop the server of ``directory`` and delete its data, wherever that lies. No way back."""
    stop(directory)
    site = _existing_site(directory)
    if site is None:
        return
    with pass_gate(site):
        _refuse_clients(site)
        remove_place(site)


def default_directory() -> Path:
    """Where this system keeps a user's data, and there ``takeback``."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local")).expanduser() / "takeback"
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/takeback").expanduser()
    wanted = Path(os.environ.get("XDG_DATA_HOME", ""))
    # A relative one is to be ignored (XDG base directory specification).
    return (wanted if wanted.is_absolute() else Path("~/.local/share").expanduser()) / "takeback"


def _require_unix() -> None:
    if sys.platform == "win32":
        raise unavailable(
            "it needs file locks and sockets that Windows does not have",
            where=sys.platform,
            expected="Linux or macOS",
            next_step="use the Linux subsystem",
        )


def _existing_site(directory: Path | None) -> Site | None:
    site = Site(directory=(directory or default_directory()).expanduser().resolve())
    return open_site(site.directory) if site.gate.exists() else None


def pass_gate(site: Site, *, wait_s: float = GATE_S) -> FileLock:
    """The site's gate, held until released; refused after ``wait_s``."""
    gate = FileLock.take(site.gate, wait_s=wait_s)
    if gate is None:
        raise unavailable(
            f"another process has been starting or stopping the server for {wait_s:g} s",
            where=site.gate,
            expected="that to take seconds",
            next_step="look which process holds the lock on this file, and end it",
        )
    return gate


def _ensure_running(site: Site, binaries: Path | None) -> tuple[Place, Ready]:
    """A server that answers, and a keeper that looks after it. Gate held, signed on."""
    silences = 0
    deadline = time.monotonic() + START_S
    while True:
        place = read_place(site)
        trusted = place is not None and is_trusted_socket(place, server_account())
        answer: Answer = ask(place.socket) if place and trusted else Silent()
        kept = is_held(site.keeper)
        if kept and place is not None and isinstance(answer, Ready):
            return place, answer
        if isinstance(answer, Closed) or time.monotonic() > deadline:
            raise unavailable(
                f"the server {describe(answer)}",
                where=site.log,
                expected=f"one that lets {USER!r} into {DATABASE!r} within {START_S:g} s",
                next_step="read its log and repair what it says",
            )
        if not kept:
            silences += not _begin_keeper(site, binaries)
        if silences > SILENCES_MAX:
            raise unavailable(
                "the process that is to keep the server ends without a word",
                where=site.log,
                expected=f"{sys.executable!r} to run the keeper",
                next_step="read the log",
            )
        time.sleep(PAUSE_S)


def _await_end(site: Site) -> bool:
    """Whether the server is gone, or has clients again; False when it is neither for too long."""
    deadline = time.monotonic() + END_S
    while not live_clients(site):
        if not is_held(site.keeper):
            if not is_held(site.server):
                return True
            _begin_keeper(site, None)  # the one it had was killed: a new one takes over and ends it
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE_S)
    return True


def _refuse_clients(site: Site) -> None:
    clients = live_clients(site)
    if clients:
        raise unavailable(
            f"the server is used by process {', '.join(map(str, dict.fromkeys(clients)))}",
            where=site.directory,
            expected="no client left",
            next_step="end these processes first",
        )


def _begin_keeper(site: Site, binaries: Path | None) -> bool:
    """Begin a keeper and wait for its word, if another is not there already; False: it gave none.

    Raises what kept it from starting the server.
    """
    place = read_place(site)
    found = find_binaries(binaries, major=cluster_major(place.data) if place else None)
    request = {
        "path": [*(str(Path(entry).absolute()) for entry in sys.path), str(SOURCE_ROOT)],
        "directory": str(site.directory),
        "binaries": str(found.directory),
        "major": str(found.major),
    }
    said = _hear_keeper(site, json.dumps(request))
    if not said:  # killed, perhaps: as an operator's broom does
        return False
    reply = json.loads(said)
    if reply["word"] == "failed":
        raise EmbeddedUnavailable(reply["message"])
    return True


def _hear_keeper(site: Site, request: str) -> bytes:
    turn_log(site)
    try:
        with site.log.open("ab") as log:
            return subprocess.run(
                [sys.executable, "-I", "-S", "-c", KEEPER, str(site.directory)],
                input=request.encode(),
                stdout=subprocess.PIPE,
                stderr=log,
                timeout=START_S,
                check=False,
                start_new_session=True,
                cwd="/",
                env=environment(),
            ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise unavailable(
            f"the process that is to keep the server can't be begun: {error}",
            where=site.log,
            expected=f"{sys.executable!r} to run and to answer within {START_S:g} s",
            next_step="read the log",
        ) from error
