"""A post office whose letters and parcels share one way out, and notes that go another."""

from typing import Any

import psycopg

from takeback.client.batching import Call
from takeback.declare import (
    BLIND,
    COMPENSATE,
    HIGH,
    KEYED,
    LOOKUP,
    LOW,
    Approval,
    Breaker,
    Connector,
    Remote,
    Tool,
    hours,
    minutes,
    seconds,
)
from takeback.dispatch.dispatcher import Dispatcher
from takeback.dispatch.executor import Ended
from takeback.dispatch.outcome import Outcome, of_answer
from takeback.dispatch.pace import Pace
from takeback.dispatch.settler import Settler
from takeback.dispatch.work import Work
from takeback.model.errors import NotDispatched
from tests.dispatch.office import Called, Office, World, row

BREAKER = Breaker(failures=3, pause=seconds(10), pause_max=minutes(5))


def post_row(name: str, effect: Remote, **more: Any) -> Tool:
    """Two calls for one addressee are two, when their notes differ."""
    return row(name, effect, **{"key": ("to", "note"), "on_difference": None} | more)


ROWS = (
    post_row("letter", Remote(upstream=BLIND, connector="post")),
    post_row("parcel", Remote(upstream=BLIND, connector="post", attempts_max=3)),
    post_row("pay", Remote(upstream=KEYED(ttl=hours(24)), connector="post", reversal=COMPENSATE)),
    post_row("wire", Remote(upstream=LOOKUP, connector="post")),
    post_row("note", Remote(upstream=BLIND, attempts_max=3)),
    post_row("urgent", Remote(upstream=BLIND, connector="post", priority=HIGH)),
    post_row("advert", Remote(upstream=BLIND, connector="post", priority=LOW)),
    post_row("turn", Remote(upstream=BLIND, connector="post", order_by="to", reversal=COMPENSATE)),
    post_row("asked_turn", Remote(upstream=BLIND, connector="post", order_by="to"),
             approval=Approval()),
    post_row("held_turn", Remote(upstream=BLIND, connector="post", order_by="to",
                                 window=seconds(60))),
)  # fmt: skip


class Post(Office):
    """The office; ``bounds`` are those of the one connector. Without any it has no row."""

    def __init__(self, url: str, world: World, pause: Any = None, **bounds: Any) -> None:
        connectors = (Connector("post", **{"breaker": None} | bounds),) if bounds else ()
        super().__init__(url, world, rows=ROWS, connectors=connectors, pause=pause)

    def post(self, count: int, tool: str = "letter", to: str | None = None) -> list[str]:
        """So many of one kind, to one addressee or to one each; their refs."""
        calls = [
            Call(tool=tool, arguments={"to": to or f"{tool}-{n}", "note": str(n)})
            for n in range(count)
        ]
        return [answer.ref or "" for answer in self.call_many(None, calls)]

    def dispatcher(self, name: str = "w", **paces: Any) -> Dispatcher:
        """A worker's dispatcher."""
        return Dispatcher(self.context, Pace(**paces), name)

    def drain(self, clock: Any, name: str = "w") -> int:
        """A worker carries out what it can; waits move the clock."""
        return self.worker_of(name, sleep=clock.advance).run(drain=True).attempts


def refs(works: Any) -> list[str]:
    """Of what was claimed."""
    return [work.intent.ref for work in works]


def settle(office: Office, works: Any, *outcomes: Outcome) -> None:
    """The attempts have begun and ended: as said, all alike or each in turn, else well."""
    executor = office.worker_of("settler")._crew._executor
    begun = [executor.begin(work, executor.monotonic() + 30) for work in works]
    said = outcomes if len(outcomes) > 1 else (outcomes or (of_answer("done"),)) * len(begun)
    ended = [
        Ended(work=one, outcome=outcome)
        for one, outcome in zip(begun, said, strict=True)
        if isinstance(one, Work)
    ]
    assert len(ended) == len(works)
    assert Settler(office.context).settle(ended) == []


def down(called: Called) -> Any:
    """The connection is refused."""
    raise NotDispatched("refused")


def lane(url: str, name: str = "post") -> dict[str, Any]:
    """The connector's row."""
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as connection:
        found = connection.execute(
            "SELECT c.*, takeback.now() AS now FROM takeback.connectors AS c WHERE name = %s",
            [name],
        ).fetchone()
    return found or {}


def instants(url: str, kind: str) -> list[float]:
    """When events of a kind were written, by the database's clock."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT extract(epoch FROM recorded_at)::float8 FROM takeback.events"
            " WHERE kind = %s ORDER BY recorded_at",
            [f"intent.{kind}"],
        ).fetchall()
    return [at for (at,) in rows]
