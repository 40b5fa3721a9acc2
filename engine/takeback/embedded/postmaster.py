"""One running server: begun or taken over, waited for, ended.

A server outlives a keeper that was killed. The next keeper does not begin a second one: it takes
the running one over. It cannot be its parent, so it waits for the server's lock instead.

A server that was killed leaves backends behind, which hold on to shared memory and may still write:
nothing is begun before the last of them has let go of the server's lock. Idle ones leave at once;
one that computes is waited for, then killed, where the system tells which one it is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from takeback.embedded.account import Account
from takeback.embedded.binaries import Binaries
from takeback.embedded.cluster import (
    ensure_cluster,
    environment,
    postmaster_pid,
    processes_in,
    remove_stale_locks,
    serve_command,
)
from takeback.embedded.lock import PAUSE_S, FileLock, sleep_while_held, wait_until_free
from takeback.embedded.probe import Busy, Closed, Ready, Silent, ask, describe
from takeback.embedded.refusal import unavailable
from takeback.embedded.site import Place, Site

START_S = 80.0  # recovery after a crash may take long
REMAINS_S = 2.0  # for the backends of a killed server to notice
END_S = ((signal.SIGINT, 10.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
LOG_TAIL_BYTES = 2000


class Postmaster:
    """A server that answers, or did until now."""

    def __init__(self, site: Site, pid: int, child: subprocess.Popen[bytes] | None) -> None:
        self._site = site
        self._pid = pid
        self._child = child

    def wait(self) -> bool:
        """Block until it is gone; whether it ended on its own terms (and not by a crash)."""
        if self._child is not None:
            return self._child.wait() == 0
        sleep_while_held(self._site.server)
        return False

    def end(self) -> None:
        """Stop it, ever more roughly as it takes longer; no way loses what was committed."""
        for number, wait_s in END_S:
            with suppress(ProcessLookupError):
                if self._child is not None:
                    self._child.send_signal(number)
                else:
                    os.kill(self._pid, number)
            if wait_until_free(self._site.server, wait_s=wait_s):
                return


def start_or_take_over(
    site: Site, place: Place, binaries: Binaries, account: Account
) -> Postmaster:
    """The site's one server, answering. Keeper's lock held."""
    deadline = time.monotonic() + START_S
    killing_from = time.monotonic() + REMAINS_S
    while (alive := FileLock.take(site.server, wait_s=0)) is None:
        answer = ask(place.socket)
        if isinstance(answer, Ready) and (pid := postmaster_pid(place)) is not None:
            return Postmaster(site, pid, None)
        if isinstance(answer, Silent) and time.monotonic() > killing_from:
            _kill_remains(place.data)
        if isinstance(answer, Closed) or time.monotonic() > deadline:
            raise unavailable(
                f"processes of a server are left that {describe(answer)}",
                where=site.directory,
                expected=f"one that lets us in, or none, within {START_S:g} s",
                next_step="end the 'postgres' processes of this directory",
            )
        time.sleep(PAUSE_S)
    log_begin = site.log.stat().st_size
    with alive:
        ensure_cluster(place, binaries, account, alive)
        remove_stale_locks(place)
        child = _launch(site, serve_command(place, binaries), account, alive)
    postmaster = Postmaster(site, child.pid, child)
    with ExitStack() as undo:
        undo.callback(postmaster.end)
        _await_answer(site, place, child, log_begin)
        undo.pop_all()
    return postmaster


def _kill_remains(data: Path) -> None:
    for pid in processes_in(data):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _launch(
    site: Site, command: list[str], account: Account, alive: FileLock
) -> subprocess.Popen[bytes]:
    with site.log.open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            user=account.user,
            group=account.group,
            extra_groups=account.extra_groups,
            pass_fds=[alive.descriptor],
            start_new_session=True,
            cwd="/",
            env=environment(),
        )


def _await_answer(site: Site, place: Place, child: subprocess.Popen[bytes], log_begin: int) -> None:
    deadline = time.monotonic() + START_S
    while not isinstance(answer := ask(place.socket), Ready):
        code = child.poll()
        waits = isinstance(answer, Silent | Busy) and time.monotonic() < deadline
        if code is not None or not waits:
            outcome = describe(answer) if code is None else f"ended with code {code}"
            raise unavailable(
                f"the server {outcome}; it said: {_log_since(site, log_begin)!r}",
                where=site.log,
                expected=f"a server that lets clients in within {START_S:g} s",
                next_step="read its log and repair what it says",
            )
        time.sleep(PAUSE_S)


def _log_since(site: Site, begin: int) -> str:
    with site.log.open("rb") as log:
        log.seek(max(begin, site.log.stat().st_size - LOG_TAIL_BYTES))
        return log.read().decode(errors="replace").strip()
