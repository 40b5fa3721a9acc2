"""Where a workflow is played: a tenant of its own, a process that may die, and what is true after.

Every play has a tenant and an addressee of its own, so that nothing has to be put back in between.
The process that plays may die; whoever looks on has connections of its own, and lives.
"""

import itertools
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import psycopg

from takeback.dispatch.pace import Pace
from takeback.ledger.borrowing import lending_engine
from takeback.ledger.database import Database
from takeback.model.handler import Handler
from takeback.testing.crash import Fault, Stage
from tests.crash.real_world import RealWorld
from tests.dispatch.clock import Clock
from tests.dispatch.office import ROWS, Called, Office, World

DICE_BYTES = 4

_NUMBERS = itertools.count(1)

IN_THE_WORLD = frozenset({"succeeded", "restoring", "restored", "restore_failed"})
UNKNOWN = frozenset({"in_doubt", "parked"})
CARRIED_OUT = (
    "send_letter",
    "hold_letter",
    "pay",
    "ship",
    "haul",
    "grant",
    "wire",
    "charge",
    "telex",
)
REPEATED = frozenset({"pay", "wire", "charge"})
"""Whose provider keeps our key, or says that nothing has arrived: called again all the same."""

UNFINISHED = frozenset({"recorded", "due", "claimed", "executing"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is checked of an intent."""

    ref: str
    tool: str
    state: str
    restored_via: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all plays share: the clock, whoever looks on, and the connections of the living."""

    url: str
    clock: Clock
    observer: psycopg.Connection[Any]
    database: Database


class Site:
    """One play: the tenant, the addressee, the world outside."""

    def __init__(
        self, ground: Ground, *, world: World | RealWorld | None = None, tenant: str | None = None
    ) -> None:
        self.url = ground.url
        self.clock = ground.clock
        self.world: Any = world or World()
        self.tenant = tenant or f"play-{next(_NUMBERS)}"
        self.to = self.tenant
        self.kept: dict[str, Any] = {}
        self._ground = ground
        self._observer = ground.observer

    def stage(self, strike: Mapping[int, Fault] | None = None) -> Stage:
        """A process that is struck at these points."""
        return Stage(self._observer, strike=strike)

    @contextmanager
    def process(self, stage: Stage | None = None) -> Iterator[Office]:
        """A process: an app. With ``stage`` its connections and calls are that stage's, and it has
        asked no server yet what it is: else it came to fewer points than the first one did.
        """
        if stage is None:
            yield self._office(self.world.handlers(ROWS), self._ground.database)
            return
        lending_engine.cache_clear()
        handlers = {
            name: _staged(stage, name, handler)
            for name, handler in vars(self.world.handlers(ROWS)).items()
        }
        office = self._office(SimpleNamespace(**handlers), Database(self.url))
        engines = office.context.database.engines
        stage.watch(*engines)
        try:
            yield office
        finally:
            for engine in engines:
                engine.dispose(close=not stage.is_dead)

    def _office(self, handlers: object, database: Database) -> Office:
        return Office(
            self.url,
            self.world,
            handlers=handlers,
            pause=self.clock.advance,
            entropy=_entropy,
            tenant=self.tenant,
            database=database,
        )

    def work(self, office: Office, name: str = "w1") -> None:
        """A worker with one thread, so that points come in one order; waits move the clock."""
        worker = office.worker_of(name, sleep=self.clock.advance, pace=Pace(concurrency=1))
        worker.run(drain=True)

    def rows(self) -> list[Row]:
        """Every intent of the tenant, as it is now."""
        found = self._observer.execute(
            "SELECT ref, tool, state, restored_via FROM takeback.intents WHERE tenant = %s",
            [self.tenant],
        )
        return [
            Row(ref=ref, tool=tool, state=state, restored_via=via)
            for ref, tool, state, via in found.fetchall()
        ]

    def is_anything_open(self) -> bool:
        """Whether time alone still changes something."""
        return any(
            row.state in UNFINISHED
            or row.state == "held"
            or (row.state == "in_doubt" and row.restored_via is None)
            for row in self.rows()
        )

    def forget_connectors(self) -> None:
        """No play finds a connector as another has left it."""
        self._observer.execute("DELETE FROM takeback.connectors")

    def has_business_row(self) -> bool:
        """Whether the caller's own row is there."""
        found = self._observer.execute("SELECT FROM public.cases WHERE name = %s", [self.to])
        return found.fetchone() is not None

    def _is_ours(self, called: Called) -> bool:
        return called.to == self.to or called.to.startswith(f"{self.to}-")

    def effects(self, tool: str) -> int:
        """How much of ``tool`` has come into this play's world."""
        return sum(one.tool == tool and one.to.startswith(self.to) for one in self.world.effects)

    def calls(self, tool: str) -> int:
        """How often the provider of ``tool`` was called, and did not say that it did nothing."""
        called = sum(one.tool == tool for one in self.world.calls if self._is_ours(one))
        return called - sum(one.tool == tool for one in self.world.refused)


def expect(site: Site, *, tool: str, count: int, states: Sequence[str]) -> list[str]:
    """What is wrong where there are not so many intents of a tool, or in other states."""
    own = [row.state for row in site.rows() if row.tool == tool]
    problems = [] if len(own) == count else [f"{len(own)} of {tool}, expected {count}"]
    return problems + [f"{tool} is {state}" for state in own if state not in states]


def _entropy(count: int) -> bytes:
    """Random, but for the dice that spread retries: they fall high, so that points come alike."""
    return b"\xff" * count if count == DICE_BYTES else secrets.token_bytes(count)


def _staged(stage: Stage, name: str, handler: Handler) -> Handler:
    return Handler(
        perform=stage.face(name, handler.perform),
        restore=stage.face(f"un{name}", handler.restore) if handler.restore else None,
        find=stage.face(f"find {name}", handler.find) if handler.find else None,
    )


def broken(site: Site) -> list[str]:
    """What is not as it must be, whatever has happened and whoever died; [] when all is well."""
    rows = site.rows()
    problems = [f"{r.ref} is left {r.state}" for r in rows if r.state in UNFINISHED]
    for tool in CARRIED_OUT:
        own = [r for r in rows if r.tool == tool]
        sure = sum(r.state in IN_THE_WORLD for r in own)
        unknown = sum(r.state in UNKNOWN for r in own)
        effects = site.effects(tool)
        if not sure <= effects <= sure + unknown:
            states = [r.state for r in own]
            problems.append(f"{tool}: {effects} in the world, and the ledger says {states}")
        if tool not in REPEATED and site.calls(tool) > len(own):
            problems.append(f"{tool}: called {site.calls(tool)} times for {len(own)} intents")
    problems += _broken_restores(site, rows)
    return problems


def _broken_restores(site: Site, rows: list[Row]) -> list[str]:
    by_ref = {r.ref: r for r in rows}
    problems = []
    for tool in ("pay", "ship"):
        compensations = [
            by_ref[r.restored_via] for r in rows if r.tool == tool and r.restored_via in by_ref
        ]
        sure = sum(r.state == "succeeded" for r in compensations)
        unknown = sum(r.state in UNKNOWN for r in compensations)
        effects = site.effects(f"un{tool}")
        if not sure <= effects <= sure + unknown:
            problems.append(f"un{tool}: {effects} in the world, {[r.state for r in compensations]}")
    for r in rows:
        via = by_ref.get(r.restored_via or "")
        if via is None:
            continue
        expected = {
            "succeeded": {"restored", "cancelled"},
            "restored": {"restored", "cancelled"},
            "failed": {"restore_failed"},
            "in_doubt": {"in_doubt"},
        }.get(via.state, {"restoring", "in_doubt"})
        if r.state not in expected:
            problems.append(f"{r.ref} is {r.state} while {via.ref} is {via.state}")
    return problems
