"""The data directory of a server: made whole or not at all, and the command that serves it.

The keeper's lock is held by whoever calls anything here. Every Postgres program inherits the
server's lock, so that while it can be taken no process of this data directory is alive.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from takeback.embedded.account import Account, require_own_directory
from takeback.embedded.binaries import Binaries
from takeback.embedded.lock import FileLock
from takeback.embedded.probe import PORT, USER, socket_file
from takeback.embedded.refusal import unavailable
from takeback.embedded.site import DRAFT, Place

INITDB_S = 60.0  # half a second on a laptop; slow disks exist
BUILTIN_LOCALE_SINCE = 17

# The programs get these and nothing else: a server must not keep the secrets of its first client.
PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")
FIXED = {"LC_ALL": "C", "TZ": "UTC"}

SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "full_page_writes": "on",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "log_destination": "stderr",
    "logging_collector": "off",
    "cluster_name": "takeback",
}


def environment() -> dict[str, str]:
    """What the keeper and the programs get of this process' environment."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ} | FIXED


def cluster_major(data: Path) -> int | None:
    """The major version of a data directory; None when there is none yet."""
    try:
        return int((data / "PG_VERSION").read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None


def ensure_cluster(place: Place, binaries: Binaries, account: Account, alive: FileLock) -> None:
    """Make the data directory if there is none. An unfinished one has another name: removed."""
    for abandoned in place.home.glob(f"{DRAFT}*"):
        shutil.rmtree(abandoned)
    if place.data.exists():
        require_own_directory(place.data, owner=account.uid)
        _require_major(place.data, binaries)
        return
    draft = Path(tempfile.mkdtemp(prefix=DRAFT, dir=place.home))
    account.give(draft)
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, draft)
        _run_initdb([*_initdb(binaries), "-D", str(draft)], account, alive)
        (draft / "pg_hba.conf").write_text("local all all trust\n")
        sync = [str(binaries.directory / "initdb"), "--sync-only", "-D", str(draft)]
        _run_initdb(sync, account, alive)
        undo.pop_all()
    draft.rename(place.data)
    _sync_directory(place.home)


def serve_command(place: Place, binaries: Binaries) -> list[str]:
    """The postmaster's command line. Settings stand in it, so that no file overrides them."""
    sockets = '"' + str(place.socket).replace('"', '""') + '"'
    settings = SETTINGS | {"unix_socket_directories": sockets}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return [str(binaries.directory / "postgres"), "-D", str(place.data), *options]


def postmaster_pid(place: Place) -> int | None:
    """What the pid file says; to be believed only while the server answers."""
    try:
        return int((place.data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None


def remove_stale_locks(place: Place) -> None:
    """Remove what a dead server left to say that it is alive. Server's lock held.

    Postgres believes a number in a file as long as any process has it: a stranger's, after each
    restart of a container for instance, or a zombie that nobody reaps. A server that somebody
    started by hand, without our lock, keeps its file.
    """
    if postmaster_pid(place) not in processes_in(place.data):
        (place.data / "postmaster.pid").unlink(missing_ok=True)
    socket = socket_file(place.socket)
    for leftover in (socket, socket.with_name(f"{socket.name}.lock")):
        leftover.unlink(missing_ok=True)


def processes_in(data: Path) -> list[int]:
    """Postgres processes that work in the data directory: Linux only, elsewhere none are found."""
    found = []
    if sys.platform == "linux":
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # gone meanwhile, or another user's
                ours = (process / "cwd").readlink() == data
                if ours and (process / "comm").read_text().startswith("postgres"):
                    found.append(int(process.name))
    return found


def _require_major(data: Path, binaries: Binaries) -> None:
    found = cluster_major(data)
    if found != binaries.major:
        raise unavailable(
            f"the data is of Postgres {found}",
            where=data,
            expected=f"data of Postgres {binaries.major}, the version of {binaries.directory}",
            next_step=f"install Postgres {found}, or choose another directory",
        )


def _initdb(binaries: Binaries) -> list[str]:
    options = [str(binaries.directory / "initdb"), "--username", USER, "--encoding=UTF8"]
    options += ["--locale=C", "--data-checksums", "--no-sync", "--no-instructions"]
    options += ["--auth-local=trust", "--auth-host=reject"]
    if binaries.major >= BUILTIN_LOCALE_SINCE:
        options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return options


def _run_initdb(command: list[str], account: Account, alive: FileLock) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=INITDB_S,
            check=False,
            user=account.user,
            group=account.group,
            extra_groups=account.extra_groups,
            pass_fds=[alive.descriptor],
            cwd="/",
            env=environment(),
        )
        problem = done.stdout.strip()[-2000:] if done.returncode else None
    except (OSError, subprocess.SubprocessError) as error:
        problem = str(error)
    if problem is not None:
        raise unavailable(
            f"initdb failed: {problem}",
            where=command[-1],
            expected="a new data directory",
            next_step="repair what it says",
        )


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
