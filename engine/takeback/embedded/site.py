"""Which file of an embedded server lies where.

In the directory that was asked for (Site):

    gate.lock     held round the decisions to start and to stop, and by nobody for long
    keeper.lock   held by the keeper as long as it lives
    server.lock   held by the server's own processes, the last backend included
    clients/      one locked file per live client; one that can be locked is of the dead
    server.log    what server and keeper said; server.log.1 is the one before
    place.json    where the rest lies (Place): beside it, but for two cases

    pgdata/       the data directory
    run/          the socket, for the server's account only

Two cases put the rest elsewhere, under a name nobody can foresee. A socket's path may have about a
hundred bytes: a longer one goes to the system's temporary directory. And root's server runs as
another account (account): when that one cannot reach the directory, pgdata and run go where root
keeps such things, or under the temporary directory that the directory itself is in, so that no
data outlives what it was made for.

Only the keeper writes place.json, holding its lock. Invariant: nothing in it is believed before
the owner and the mode of what it names are checked.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from takeback.embedded.account import (
    Account,
    can_reach,
    require_own_directory,
)
from takeback.embedded.probe import socket_file
from takeback.embedded.refusal import unavailable

DRAFT = ".takeback-init-"  # begins the name of a data directory that is not whole yet
SOCKET_PATH_BYTES_MAX = 103  # macOS allows 103 and a NUL, Linux 107
LOG_BYTES_MAX = 8_000_000  # then a new one is begun at the next start
TEMPORARY = (Path("/tmp"), Path("/var/tmp"))  # used with mkdtemp only
ROOT_KEEPS = (Path("/var/lib/takeback"), Path("/var/tmp/takeback-root"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The directory that was asked for: absolute, without symlinks."""

    directory: Path

    @property
    def gate(self) -> Path:
        """Locked round start and stop."""
        return self.directory / "gate.lock"

    @property
    def keeper(self) -> Path:
        """Locked while the keeper lives."""
        return self.directory / "keeper.lock"

    @property
    def server(self) -> Path:
        """Locked while any process of the server lives."""
        return self.directory / "server.lock"

    @property
    def clients(self) -> Path:
        """The directory of the clients' files."""
        return self.directory / "clients"

    @property
    def log(self) -> Path:
        """What the server and the keeper said."""
        return self.directory / "server.log"

    @property
    def place(self) -> Path:
        """The file that says where data and socket lie."""
        return self.directory / "place.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the server lives: ``home`` holds the data directory, ``socket`` is a directory too."""

    home: Path
    socket: Path

    @property
    def data(self) -> Path:
        """Postgres' data directory."""
        return self.home / "pgdata"


def open_site(directory: Path) -> Site:
    """The site in ``directory``, made if need be; refuses one that is not ours alone."""
    try:
        if not directory.exists():
            directory.parent.mkdir(parents=True, exist_ok=True)
            # Root's server runs as somebody else, who has to pass through.
            directory.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, exist_ok=True)
        site = Site(directory=directory.resolve(strict=True))
        # A user's private group may write in what he makes; in root's directories nobody else may.
        forbidden = 0o022 if os.geteuid() == 0 else 0o002
        require_own_directory(site.directory, owner=os.geteuid(), forbidden=forbidden)
        _require_empty_or_site(site)
        site.gate.touch(mode=0o600)  # the first of ours: it says whose directory this is
        site.clients.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise unavailable(
            f"the directory can't be used: {error.strerror}",
            where=directory,
            expected="a directory to write in, or a path where one can be made",
            next_step="choose another directory",
        ) from error
    return site


def read_place(site: Site) -> Place | None:
    """What was settled at an earlier start; None when nothing was."""
    try:
        raw = json.loads(site.place.read_text())
        # Relative means beside the file: the directory may have been moved.
        place = Place(home=site.directory / raw["home"], socket=site.directory / raw["socket"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise unavailable(
            "the note on where the data lies is damaged",
            where=site.place,
            expected="an object with 'home' and 'socket'",
            next_step="put it back from a backup, or remove it to begin with an empty database",
        ) from error
    if place.home != site.directory:
        _check_home(site, place.home)
    return place


def is_trusted_socket(place: Place, account: Account) -> bool:
    """Whether the socket's directory is there and the account's alone.

    A cleaner may have removed it, and somebody else made one of that name: nobody connects there.
    """
    try:
        found = place.socket.lstat()
    except FileNotFoundError:
        return False
    return found.st_uid == account.uid and found.st_mode & 0o170077 == 0o040000


def settle_place(site: Site, account: Account) -> Place:
    """Where the server lives from now on: as before, where that is possible. Keeper's lock held."""
    before = read_place(site)
    home = before.home if before else _new_home(site, account)
    if before and is_trusted_socket(before, account):
        return before
    place = Place(home=home, socket=_new_socket_directory(home, account))
    _write(site, place)
    return place


def remove_far_socket(site: Site) -> None:
    """Leave nothing in the system's temporary directory. Keeper's lock held, no server alive."""
    with suppress(OSError):  # the whole site was deleted, or the socket's directory was
        place = read_place(site)
        if place is not None and not place.socket.is_relative_to(place.home):
            place.socket.rmdir()


def remove_place(site: Site) -> None:
    """Delete the data and all that is ours in the directory. Gate held, no process alive."""
    place = read_place(site)
    if place is not None:
        for leftover in (place.data, place.socket, *place.home.glob(f"{DRAFT}*")):
            shutil.rmtree(leftover, ignore_errors=True)
        if place.home != site.directory:
            shutil.rmtree(place.home, ignore_errors=True)
    shutil.rmtree(site.clients, ignore_errors=True)
    log_before = site.log.with_name(site.log.name + ".1")
    # The gate goes last: who waits for it looks again whether it is still the one on the path.
    for file in (site.place, site.log, log_before, site.server, site.keeper, site.gate):
        file.unlink(missing_ok=True)
    with suppress(OSError):  # somebody else's files are in it
        site.directory.rmdir()


def turn_log(site: Site) -> None:
    """Begin a log, a new one when the old one has grown long; it may quote data: for us alone."""
    with suppress(FileNotFoundError):
        if site.log.stat().st_size > LOG_BYTES_MAX:
            site.log.replace(site.log.with_name(site.log.name + ".1"))
    site.log.touch(mode=0o600)


def root_keep(candidates: Sequence[Path] = ROOT_KEEPS) -> Path:
    """Root's directory for what another account must reach; its parents are left as they are."""
    *wanted, last = candidates
    for candidate in wanted:
        with suppress(OSError):  # read-only, or no such place on this system
            return _root_keep(candidate)
    return _root_keep(last)


def _require_empty_or_site(site: Site) -> None:
    # Names such as "pgdata" may be somebody's own in a directory that holds other things.
    others = sorted(entry.name for entry in site.directory.iterdir())
    if others and not site.gate.exists():
        raise unavailable(
            f"the directory holds other things, such as {others[0]!r}",
            where=site.directory,
            expected="a new or empty directory, or one that an embedded Postgres has used before",
            next_step="choose a directory inside it",
        )


def _root_keep(directory: Path) -> Path:
    with suppress(FileExistsError):
        directory.mkdir(mode=0o755)
        directory.chmod(0o755)  # whatever the umask says
    require_own_directory(directory, owner=os.geteuid())
    return directory


def _check_home(site: Site, home: Path) -> None:
    try:
        require_own_directory(home, owner=os.geteuid())
    except FileNotFoundError as error:
        raise unavailable(
            f"the data directory that {str(site.place)!r} names is gone",
            where=home,
            expected="the directory as it was made at the first start",
            next_step=f"put it back, or remove {site.place.name} to begin with an empty database",
        ) from error


def _new_home(site: Site, account: Account) -> Path:
    if can_reach(account, site.directory):
        return site.directory
    under = next((t for t in TEMPORARY if site.directory.is_relative_to(t.resolve())), None)
    prefix = f"{site.directory.name[:20]}-" if under is None else "takeback-"
    home = Path(tempfile.mkdtemp(prefix=prefix, dir=under or root_keep()))
    home.chmod(0o711)  # the account passes through to what is its own
    return home


def _new_socket_directory(home: Path, account: Account) -> Path:
    directory = home / "run"
    if len(os.fsencode(socket_file(directory))) > SOCKET_PATH_BYTES_MAX:
        directory = Path(tempfile.mkdtemp(prefix="takeback-", dir=TEMPORARY[0]))
    else:
        directory.mkdir(mode=0o700, exist_ok=True)
    account.give(directory)
    require_own_directory(directory, owner=account.uid, forbidden=0o077)
    return directory


def _write(site: Site, place: Place) -> None:
    home, socket = (
        str(path.relative_to(site.directory) if path.is_relative_to(site.directory) else path)
        for path in (place.home, place.socket)
    )
    draft = site.place.with_suffix(".new")
    with draft.open("w") as file:
        json.dump({"home": home, "socket": socket}, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(site.place)
