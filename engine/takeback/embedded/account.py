"""As whom the server runs, what that account can reach, and whose directories are trusted.

Postgres refuses to run as root. Root's server runs as ``nobody``: an account that every system has,
so that none is made; no mode of a directory that is not ours is ever changed, so what that account
cannot reach is placed elsewhere (site) or copied (binaries).
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from takeback.embedded.refusal import unavailable

if sys.platform != "win32":
    import pwd

NOBODY_UID = 65534  # where the account goes by another name


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Whom the server's processes belong to; ``drops``: it is another than this process."""

    uid: int
    gid: int
    drops: bool

    @property
    def user(self) -> int | None:
        """What subprocess takes as ``user``: None leaves it as it is."""
        return self.uid if self.drops else None

    @property
    def group(self) -> int | None:
        """What subprocess takes as ``group``."""
        return self.gid if self.drops else None

    @property
    def extra_groups(self) -> list[int] | None:
        """What subprocess takes as ``extra_groups``: none of root's."""
        return [] if self.drops else None

    def give(self, path: Path) -> None:
        """Hand a file that this process has just made to the account."""
        if self.drops:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def server_account() -> Account:
    """This process' own account, or ``nobody`` for root."""
    if os.geteuid() != 0:
        return Account(uid=os.geteuid(), gid=os.getegid(), drops=False)
    with suppress(KeyError):
        return _dropping_to(pwd.getpwnam("nobody"))
    with suppress(KeyError):
        return _dropping_to(pwd.getpwuid(NOBODY_UID))
    raise unavailable(
        "Postgres does not run as root, and there is no account 'nobody' to run it as",
        where="/etc/passwd",
        expected=f"an account named 'nobody' or with uid {NOBODY_UID}",
        next_step="run as an ordinary user",
    )


def _dropping_to(entry: pwd.struct_passwd) -> Account:
    return Account(uid=entry.pw_uid, gid=entry.pw_gid, drops=True)


def can_reach(account: Account, path: Path) -> bool:
    """Whether the account may pass through ``path`` and all its parents (by their mode bits)."""
    if not account.drops:
        return True
    return all(_may_enter(account, step) for step in (path, *path.parents))


def require_own_directory(path: Path, *, owner: int, forbidden: int = 0o022) -> None:
    """Refuse a directory that somebody else made or may write in; a symlink is none.

    ``forbidden`` are the mode bits that must not be set: by default nobody else may write.
    """
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        problem = "there is something that is no directory"
    elif found.st_uid != owner:
        problem = f"the directory belongs to uid {found.st_uid}"
    elif found.st_mode & forbidden:
        problem = f"others have access to the directory (mode {stat.S_IMODE(found.st_mode):o})"
    else:
        return
    raise unavailable(
        problem,
        where=path,
        expected=f"a directory of uid {owner} without the mode bits {forbidden:03o}",
        next_step="run as its owner, choose another directory, or remove it if it is nobody's",
    )


def _may_enter(account: Account, directory: Path) -> bool:
    found = directory.stat()
    if found.st_uid == account.uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == account.gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)
