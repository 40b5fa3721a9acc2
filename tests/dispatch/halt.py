"""Holding a process at a point: there it waits, inside a transaction or out, until it may go on."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import psycopg

from takeback.testing.crash import Fault, Stage, StagedConnection
from tests.dispatch.office import Office

SECONDS_MAX = 30

AnOffice = TypeVar("AnOffice", bound=Office)


class Halt(Stage):
    """A process that stops where ``at`` is said for the ``nth`` time, until ``go``."""

    def __init__(self, observer: psycopg.Connection, *, at: str, nth: int = 1) -> None:
        super().__init__(observer)
        self._at = at
        self._left = nth
        self._arrived = threading.Event()
        self._go = threading.Event()

    def reach(self, name: str, connection: StagedConnection | None) -> None:
        """Waits at the point."""
        super().reach(name, connection)
        if name == self._at:
            self._left -= 1
            if self._left == 0:
                self._arrived.set()
                assert self._go.wait(SECONDS_MAX), f"nobody let it go on {name}"

    def wait(self) -> None:
        """Returns when it has come to the point."""
        assert self._arrived.wait(SECONDS_MAX), f"it never came to {self._at}: {self.points}"

    def go(self) -> None:
        """Lets it go on."""
        self._go.set()

    @contextmanager
    def watching(self, office: AnOffice) -> Iterator[AnOffice]:
        """``office`` with connections of this process."""
        self.watch(*office.context.database.engines)
        try:
            yield office
        finally:
            self.go()
            office.close()


class Lose(Stage):
    """A process whose connection is cut where ``at`` is said for the ``nth`` time; it lives on."""

    def __init__(self, observer: psycopg.Connection, *, at: str, nth: int = 1) -> None:
        super().__init__(observer)
        self._at = at
        self._left = nth

    def fault_at(self, number: int, name: str) -> Fault | None:
        """Strikes once."""
        self._left -= name == self._at
        return Fault.LOST if name == self._at and self._left == 0 else None
