"""The process that starts a site's server, begins it anew after a crash, and ends it with its last
client.

It is a process of its own because a client may be killed at any moment, and then nobody else would
be left to end the server. It sleeps on the clients' locks: no polling. It lives in a session of its
own, so that Ctrl-C in a client's terminal reaches neither it nor the server.

Lock order: its own lock for life; then the gate, to end the server; the server's lock is the
server's. With the gate held it looks again whether a client has come, and keeps the gate until it
has died, so that the next client begins from a clean slate.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from takeback.embedded.account import server_account
from takeback.embedded.binaries import Binaries, reachable_binaries
from takeback.embedded.lock import FileLock
from takeback.embedded.postmaster import Postmaster, start_or_take_over
from takeback.embedded.refusal import unavailable
from takeback.embedded.roster import live_clients, remove_dead, sleep_while_any_lives
from takeback.embedded.site import Site, remove_far_socket, settle_place
from takeback.model.errors import EmbeddedUnavailable

OWN_LOCK_S = 1.0  # somebody may be looking at the lock just now
RESTARTS_MAX = 10  # a server that crashes more often wants a person's eyes, or the next client

Word = Literal["ready", "busy", "failed"]


class Keeper:
    """One site's keeper, its lock held."""

    def __init__(self, site: Site, binaries: Binaries) -> None:
        self._site = site
        self._binaries = binaries
        self._ending = threading.Event()
        self._postmaster: Postmaster | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._end())

    def begin(self) -> Postmaster:
        """Start the server, or take over the one that runs; it answers then."""
        account = server_account()
        binaries = reachable_binaries(self._binaries, account)
        place = settle_place(self._site, account)
        self._postmaster = start_or_take_over(self._site, place, binaries, account)
        if self._ending.is_set():  # asked for while there was no server to end
            self._postmaster.end()
        return self._postmaster

    def keep(self, postmaster: Postmaster) -> None:
        """Return when the server has ended for good."""
        threading.Thread(target=self._end_after_last_client, daemon=True).start()
        restarts = 0
        while not postmaster.wait() and not self._ending.is_set() and restarts < RESTARTS_MAX:
            restarts += 1
            postmaster = self.begin()

    def _end_after_last_client(self) -> None:
        while True:
            sleep_while_any_lives(self._site)
            gate = self._take_gate()
            if not live_clients(self._site):
                break
            if gate is not None:
                gate.release()
        remove_dead(self._site)
        self._end()  # the gate stays closed until this process is gone

    def _take_gate(self) -> FileLock | None:
        with suppress(FileNotFoundError):  # the whole directory was deleted
            return FileLock.take(self._site.gate, wait_s=math.inf)
        return None

    def _end(self) -> None:
        self._ending.set()
        if self._postmaster is not None:
            self._postmaster.end()


def main(request: Mapping[str, str]) -> None:
    """Keep the server of ``request``, after a word to whoever reads standard output."""
    if os.fork() > 0:
        os._exit(0)  # the keeper is nobody's child: no client has to wait for it
    os.umask(0o077)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    site = Site(directory=Path(request["directory"]))
    binaries = Binaries(directory=Path(request["binaries"]), major=int(request["major"]))
    try:
        if FileLock.take(site.keeper, wait_s=OWN_LOCK_S) is None:
            _say("busy")
            return
        keeper = Keeper(site, binaries)
        postmaster = keeper.begin()
        _say("ready")
        keeper.keep(postmaster)
        remove_far_socket(site)
    except EmbeddedUnavailable as refusal:
        _fail(refusal)
    except OSError as error:
        _fail(
            unavailable(
                f"the system refused: {error}",
                where=site.directory,
                expected="a server to start",
                next_step="repair what it says",
            )
        )


def _fail(refusal: EmbeddedUnavailable) -> None:
    sys.stderr.write(f"keeper: {refusal}\n")
    _say("failed", str(refusal))


def _say(word: Word, message: str = "") -> None:
    """Say it and hang up; said once, and to nobody when the client was killed meanwhile."""
    with suppress(BrokenPipeError):
        os.write(1, json.dumps({"word": word, "message": message}).encode())
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.close(silence)
