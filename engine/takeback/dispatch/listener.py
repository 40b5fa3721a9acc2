"""Hears from how attempts end whether a provider answers, and tells the breaker of its connector.

An attempt that was not dispatched, or is in doubt, was not answered; one that succeeded or was
refused was. Told in a transaction of its own, after the outcomes are written: whoever dies in
between, or finds no time, leaves the breaker as it was, and the next outcome tells it again.

In an outage attempts prove that nothing happened one after the other. Only the first of such a row
counts towards what a tool's row allows: the others are spared, so that no outage, however long,
fails an intent that is never dispatched. Attempts in doubt are not spared: each may have arrived.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from takeback.client.context import Context
from takeback.dispatch.executor import Ended
from takeback.dispatch.governor import connector_of
from takeback.dispatch.outcome import Outcome
from takeback.dispatch.work import identity
from takeback.ledger.bound import bound
from takeback.ledger.governing import (
    attempts_spared,
    await_lanes,
    read_lanes,
    read_traffic,
    write_lanes,
)
from takeback.ledger.transaction import Tx
from takeback.log import logger
from takeback.meter import Count
from takeback.model import errors
from takeback.model.lane import Heard, Lane, hear

PATIENCE = timedelta(seconds=2)
"""A claim holds a connector's row for milliseconds; whoever holds it longer is not waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The outcomes that proved that nothing happened, by the ``id`` of what ended, with how many
    attempts count, and whether they do themselves: behind a breaker they may not.
    ``failing`` are the lanes in which the last attempts before these were not answered.
    """

    outcomes: Mapping[int, Outcome]
    failing: Collection[str]


@dataclass(frozen=True, slots=True)
class Listener:
    """Listens for one worker; each ``tell`` is one transaction."""

    context: Context

    def judge(self, tx: Tx, ended: Sequence[Ended]) -> Judged:
        """What ``ended`` means behind breakers, as these stand now."""
        guarded = {id(one) for one in self._guarded(ended)}
        deferred = [identity(one.work.intent) for one in ended if _is_deferred(one)]
        if not guarded and not deferred:
            return Judged(outcomes={}, failing=())
        lanes = {one.work.intent.lane for one in ended if id(one) in guarded}
        rows = read_lanes(tx, lanes) if lanes else ()
        failing = {lane.name for lane in rows if lane.failures}
        failures = {lane.name: lane.failures for lane in rows}
        spared = attempts_spared(tx, deferred) if deferred else {}
        outcomes = {}
        for one in ended:
            intent, heard = one.work.intent, heard_in(one.outcome)
            before = failures.get(intent.lane, 0) if id(one) in guarded else 0
            if _is_deferred(one):
                counted = intent.attempt - spared.get(intent.id, 0) - (before > 0)
                outcomes[id(one)] = replace(
                    one.outcome, attempts=max(counted, 1), is_spared=before > 0
                )
            if heard != "nothing" and id(one) in guarded:
                failures[intent.lane] = before + 1 if heard == "unanswered" else 0
        return Judged(outcomes=outcomes, failing=failing)

    def tell(self, ended: Sequence[Ended], failing: Collection[str]) -> None:
        """Tells the breakers what ``ended`` says of their providers, where that is news.

        An answer, where all had been answered before, is none.
        """
        guarded = self._guarded(ended)
        lanes = {one.work.intent.lane for one in guarded if _is_unanswered(one)} | {*failing}
        news = [one for one in guarded if one.work.intent.lane in lanes]
        if not news:
            return
        try:
            with self.context.database.internal_transaction() as tx:
                bound(tx, PATIENCE)
                self._tell(tx, news)
        except errors.TakebackError as problem:
            logger.warning("breaker_not_told", code=problem.code, attempts=len(news))

    def _tell(self, tx: Tx, news: Sequence[Ended]) -> None:
        before = {one.name: one for one in await_lanes(tx, {n.work.intent.lane for n in news})}
        now = read_traffic(tx, ()).now
        lanes = dict(before)
        for one in news:
            name = one.work.intent.lane
            connector = connector_of(self.context, one.work)
            if name in lanes and connector is not None:
                heard = heard_in(one.outcome)
                lanes[name] = hear(
                    lanes[name], connector.breaker, heard, now, is_probe=one.work.is_probe
                )
        changed = [lane for name, lane in lanes.items() if lane != before[name]]
        if changed:
            write_lanes(tx, changed)
        for lane in changed:
            self._say(before[lane.name], lane)

    def _say(self, before: Lane, after: Lane) -> None:
        if after.opened_at is None and before.opened_at is not None:
            logger.info("connector_resumed", connector=after.name)
        elif after.paused_until != before.paused_until:
            logger.warning(
                "connector_paused",
                connector=after.name,
                failures=after.failures,
                seconds=after.pause.total_seconds(),
            )
            if self.context.meter is not None:
                self.context.meter.add(Count.CONNECTOR_PAUSES, after.name)

    def _guarded(self, ended: Sequence[Ended]) -> list[Ended]:
        """Those behind a breaker. One that had been given up was told then: only its answer is
        heard.
        """
        return [
            one
            for one in ended
            if (connector := connector_of(self.context, one.work)) is not None
            and connector.breaker is not None
            and not (one.is_late and _is_unanswered(one))
        ]


def heard_in(outcome: Outcome) -> Heard:
    """What the end of an attempt says of the provider: an attempt that was cut off says nothing.

    >>> heard_in(Outcome(kind="failed")), heard_in(Outcome(kind="in_doubt", cause="timed_out"))
    ('answered', 'unanswered')
    >>> heard_in(Outcome(kind="in_doubt", cause="interrupted"))
    'nothing'
    """
    if outcome.kind in ("succeeded", "failed"):
        return "answered"
    is_cut_off = outcome.kind == "in_doubt" and outcome.cause == "interrupted"
    if outcome.kind in ("interrupted", "settled") or is_cut_off:
        return "nothing"
    return "unanswered"


def _is_deferred(one: Ended) -> bool:
    return one.outcome.kind == "deferred"


def _is_unanswered(one: Ended) -> bool:
    return heard_in(one.outcome) == "unanswered"
