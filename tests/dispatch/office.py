"""A post office: an app with a tool for each kind of provider, and the world outside it.

world = World()
office = Office(database_url, world)
office.call(None, "send_letter", {"to": "dana"})
office.worker_of("w1").run(drain=True)
assert world.arrived("dana") == 1
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import psycopg
from pydantic import BaseModel
from sqlalchemy import text

from takeback.app import Takeback
from takeback.client.context import Context
from takeback.declare import (
    BLIND,
    COMPENSATE,
    DIFFERS,
    KEYED,
    LOOKUP,
    Approval,
    Catalog,
    Connector,
    Local,
    Remote,
    Text,
    Tool,
    hours,
    seconds,
)
from takeback.desk import Desk
from takeback.dispatch.pace import Pace
from takeback.dispatch.work import Work
from takeback.dispatch.worker import Worker
from takeback.ledger.database import Database
from takeback.model.errors import NotDispatched, Rejected
from takeback.model.handler import Absent, Attempt, Handler, Original
from takeback.settings import Settings


class Letter(BaseModel):
    """What is sent to whom."""

    to: Text
    note: Text = ""


def row(name: str, effect: Remote | Local, **more: Any) -> Tool:
    """A row of the office; two calls for one addressee are the same call."""
    said = {"description": "Sends something.", "key": ("to",), "on_difference": DIFFERS} | more
    return Tool(name, Letter, effect=effect, **said)


ROWS = (
    row("send_letter", Remote(upstream=BLIND)),
    row("hold_letter", Remote(upstream=BLIND, window=seconds(60))),
    row("pay", Remote(upstream=KEYED(ttl=hours(24)), reversal=COMPENSATE)),
    row("ship", Remote(upstream=BLIND, reversal=COMPENSATE)),
    row("haul", Remote(upstream=BLIND, attempt_seconds_max=600, renew_lease=True)),
    row("wire", Remote(upstream=LOOKUP)),
    row("charge", Remote(upstream=KEYED(ttl=hours(24)))),
    row("file_case", Local()),
    row("grant", Remote(upstream=BLIND), approval=Approval()),
    row("telex", Remote(upstream=BLIND, connector="cable", order_by="note")),
    row("open_case", Local(), approval=Approval()),
)


KEEP_KEYS = frozenset({"pay", "unpay", "charge"})
CAN_BE_ASKED = frozenset({"wire", "charge"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """One call of a face: of which tool, for whom, under which key of the provider's."""

    tool: str
    to: str
    note: str
    key: str
    number: int


class World:
    """What has come in. ``on[tool]`` is called instead, when a test has put something there.

    A tool that is taken back is called ``unpay`` or ``unship``, the provider that is asked what
    became of an attempt ``find_wire`` or ``find_charge``.
    """

    def __init__(self) -> None:
        self.calls: list[Called] = []
        self.questions: list[Called] = []
        self.effects: list[Called] = []
        self.refused: list[Called] = []
        self.on: dict[str, Callable[[Called], Any]] = {}
        self._lock = threading.Lock()

    def call(self, called: Called) -> Any:
        """A provider is called: what a test wants to happen, else it arrives."""
        with self._lock:
            self.calls.append(called)
        try:
            return self.on.get(called.tool, self.arrive)(called)
        except (NotDispatched, Rejected):
            self.refused.append(called)
            raise

    def call_of(self, work: Work) -> Any:
        """A provider is called by a worker that says nothing of it to anybody."""
        return self.call(_called(work.intent.tool, work.given, work.attempt()))

    def arrive(self, called: Called) -> dict[str, Any]:
        """It is in the world now. A provider that keeps keys does nothing twice under one."""
        with self._lock:
            keeps_keys = called.tool in KEEP_KEYS
            if not keeps_keys or called.key not in {one.key for one in self.effects}:
                self.effects.append(called)
            return {"number": len(self.effects)}

    def find(self, called: Called) -> Any:
        """A provider is asked: what a test wants it to say, else what is so."""
        with self._lock:
            self.questions.append(called)
        return self.on.get(f"find_{called.tool}", self.look_up)(called)

    def look_up(self, called: Called) -> Any:
        """What has arrived under the key, or that nothing has."""
        found = [n for n, one in enumerate(self.effects, 1) if one.key == called.key]
        return {"number": found[0]} if found else Absent()

    def arrived(self, to: str, *, tool: str | None = None) -> int:
        """How many things have come to ``to``."""
        return sum(one.to == to and tool in (None, one.tool) for one in self.effects)

    def called(self, to: str, *, tool: str | None = None) -> int:
        """How often a provider was called for ``to``, whatever came of it."""
        return sum(one.to == to and tool in (None, one.tool) for one in self.calls)

    def handlers(self, rows: Sequence[Tool]) -> object:
        """A handler for each row."""
        return SimpleNamespace(**{tool.name: self._handler(tool) for tool in rows})

    def _handler(self, tool: Tool) -> Handler:
        if isinstance(tool.effect, Local):
            return Handler(perform=file_case, restore=unfile_case)

        def perform(arguments: Letter, attempt: Attempt) -> Any:
            return self.call(_called(tool.name, arguments, attempt))

        def restore(original: Original, attempt: Attempt) -> Any:
            return self.call(_called(f"un{tool.name}", original.arguments, attempt))

        def find(arguments: Letter, attempt: Attempt) -> Any:
            return self.find(_called(tool.name, arguments, attempt))

        reverses = isinstance(tool.effect, Remote) and tool.effect.reversal is COMPENSATE
        return Handler(
            perform=perform,
            restore=restore if reverses else None,
            find=find if tool.name in CAN_BE_ASKED else None,
        )


def _called(tool: str, arguments: Any, attempt: Attempt) -> Called:
    return Called(
        tool=tool,
        to=arguments.to,
        note=arguments.note,
        key=attempt.provider_key,
        number=attempt.number,
    )


def file_case(session: Any, arguments: Letter) -> dict[str, str]:
    """Puts a row into the caller's database."""
    session.execute(text("INSERT INTO public.cases (name) VALUES (:to)"), {"to": arguments.to})
    return {"name": arguments.to}


def unfile_case(session: Any, original: Original) -> None:
    """Takes the row away again."""
    session.execute(
        text("DELETE FROM public.cases WHERE name = :to"), {"to": original.arguments.to}
    )


class Office(Takeback):
    """The app. ``pause`` replaces the waits inside the engine; None waits for real.

    ``database`` is one that others use too; None opens one.
    """

    def __init__(
        self,
        url: str,
        world: Any,
        *,
        rows: Sequence[Tool] = ROWS,
        connectors: Sequence[Connector] = (),
        pause: Callable[[float], None] | None = None,
        handlers: object | None = None,
        database: Database | None = None,
        entropy: Callable[[int], bytes] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(
            Catalog(*rows, connectors=connectors),
            handlers=handlers or world.handlers(rows),
            settings=Settings(database_url=url, **settings),
        )
        self._pause = pause
        self._waited = 0.0
        self._database = database
        self._entropy = entropy

    @cached_property
    def context(self) -> Context:
        """What the rooms of motion are handed, with the test's own waits."""
        context: Context = vars(Desk)["context"].func(self)
        return replace(
            context,
            pause=context.pause if self._pause is None else self._wait,
            monotonic=lambda: context.monotonic() + self._waited,
            database=self._database or context.database,
            entropy=self._entropy or context.entropy,
        )

    def _wait(self, seconds: float) -> None:
        """Passes without anybody waiting for it."""
        self._waited += seconds
        if self._pause is not None:
            self._pause(seconds)

    def worker_of(
        self,
        name: str,
        *,
        sleep: Callable[[float], object] | None = None,
        stopping: Callable[[], bool] = lambda: False,
        monotonic: Callable[[], float] = time.monotonic,
        pace: Pace | None = None,
        **paces: Any,
    ) -> Worker:
        """A worker of this name, which waits for real unless ``sleep`` is given."""
        return Worker(
            self.context,
            pace or Pace(**paces),
            name=name,
            sleep=sleep or threading.Event().wait,
            stopping=stopping,
            monotonic=monotonic,
        )

    def state(self, ref: str | None) -> str:
        """Where the intent of ``ref`` stands."""
        return self.show(ref or "").entry.intent.state.value

    def kinds(self, ref: str | None) -> list[str]:
        """The kinds of its events, in order, without the room they all stand in."""
        return [event.kind.removeprefix("intent.") for event in self.show(ref or "").events]


def make_cases(url: str) -> None:
    """The table that the Local tool writes to."""
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS public.cases (name text PRIMARY KEY)")
