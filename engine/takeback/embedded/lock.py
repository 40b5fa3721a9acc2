"""File locks: exclusive, advisory, and dropped by the kernel when the process dies.

They are flock(2) locks, which belong to an open file and not to a process:

- a subprocess does not inherit one (the descriptor is close-on-exec), unless it is handed over on
  purpose, which is how the server's own lock lives as long as any of its processes;
- a forked child would inherit it, and keep it after its parent's death: the child closes it;
- the same process asking twice is refused like anybody else.

A lock whose file was deleted meanwhile is no lock: taking one checks that the path still leads to
the file that was locked, and begins again otherwise.
"""

from __future__ import annotations

import os
import sys
import time
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

if sys.platform != "win32":
    import fcntl

PAUSE_S = 0.01  # between two looks: far below what starting anything takes


class FileLock:
    """An exclusive lock that this process holds until ``release``, or until it dies."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        _HELD.add(self)
        _close_in_children()

    @classmethod
    def take(cls, path: Path, *, wait_s: float) -> Self | None:
        """The lock on ``path``, its file made if need be; None if it stays taken for ``wait_s``."""
        deadline = time.monotonic() + wait_s
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            if _lock_now(descriptor, fcntl.LOCK_EX) and _leads_to(path, descriptor):
                return cls(path, descriptor)
            os.close(descriptor)
            if time.monotonic() >= deadline:
                return None
            time.sleep(PAUSE_S)

    @classmethod
    def create(cls, path: Path, content: str) -> Self:
        """The lock on a new file that says ``content``; FileExistsError when there is one."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        # Blocking: somebody who looks for the dead may hold a brand-new file for an instant.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, content.encode())
        return cls(path, descriptor)

    @property
    def descriptor(self) -> int:
        """The open file, to hand over to a child; ValueError after release."""
        if self._descriptor is None:
            raise ValueError(f"the lock on {str(self.path)!r} was released")
        return self._descriptor

    @property
    def released(self) -> bool:
        """Whether this process has let go."""
        return self._descriptor is None

    def release(self) -> None:
        """Let go; a second time does nothing. A copy handed to a child stays locked."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def is_held(path: Path) -> bool:
    """Whether anybody, this process included, holds the lock; False when there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two who look at once do not take each other for a holder.
        return not _lock_now(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def sleep_while_held(path: Path) -> None:
    """Return when nobody holds the lock any more: without a wake-up until then."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)


def wait_until_free(path: Path, *, wait_s: float) -> bool:
    """Whether the lock was free at some moment of the next ``wait_s`` seconds."""
    deadline = time.monotonic() + wait_s
    while is_held(path):
        if time.monotonic() >= deadline:
            return False
        time.sleep(PAUSE_S)
    return True


def _lock_now(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _leads_to(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


# What this process holds: as global as the kernel's table of it, and read after a fork only.
_HELD: weakref.WeakSet[FileLock] = weakref.WeakSet()


@cache
def _close_in_children() -> None:
    os.register_at_fork(after_in_child=_release_all)


def _release_all() -> None:
    for lock in list(_HELD):
        lock.release()
