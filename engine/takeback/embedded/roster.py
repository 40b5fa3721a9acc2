"""Who uses the server: one locked file per live client, named after its process.

The kernel drops the lock of a process that died, so a file that can be locked is of the dead and is
removed by whoever finds it, holding the gate: a client holds the gate too while it makes its file,
so that a file which is there but not locked yet is never taken for one of the dead.
"""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path

from takeback.embedded.lock import FileLock, is_held, sleep_while_held
from takeback.embedded.site import Site


def sign_on(site: Site) -> FileLock:
    """Count as a client from now on. Gate held."""
    name = f"{os.getpid()}-{secrets.token_hex(4)}"  # one process may be a client several times
    return FileLock.create(site.clients / name, f"{os.getpid()} {sys.argv[0]}\n")


def sign_off(claim: FileLock) -> None:
    """Count no longer. In a forked child, which never did, nothing happens."""
    if not claim.released:
        claim.path.unlink(missing_ok=True)
        claim.release()


def live_clients(site: Site) -> list[int]:
    """The process of each live client; one of several claims is there as often."""
    return sorted(_pid(file) for file in _files(site) if is_held(file))


def remove_dead(site: Site) -> None:
    """Remove what the dead left. Gate held."""
    for file in _files(site):
        if not is_held(file):
            file.unlink(missing_ok=True)


def sleep_while_any_lives(site: Site) -> None:
    """Return when each client of this moment is gone, without a wake-up until then."""
    for file in _files(site):
        sleep_while_held(file)


def _files(site: Site) -> list[Path]:
    with suppress(FileNotFoundError):  # the whole directory was deleted: nobody is left
        return list(site.clients.iterdir())
    return []


def _pid(file: Path) -> int:
    return int(file.name.partition("-")[0])
