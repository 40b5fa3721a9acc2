"""Holds claims to what may go through a connector: so many at once, at its rate, and in no outage.

Says how much room there is before a claim, and takes what was claimed out of it, in the claim's own
transaction and behind the lock of the connector's row: so all workers of the ledger share it. A
connector whose row somebody else holds has no room this time; one that no row of the catalog
describes is asked about nowhere and costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from takeback.client.context import Context
from takeback.declare import Connector, Remote
from takeback.dispatch.pace import GRACE_SECONDS, Pace
from takeback.dispatch.work import Identity, Work
from takeback.ledger.governing import (
    lanes_of,
    lock_lanes,
    read_lanes,
    read_traffic,
    register_lanes,
    write_lanes,
)
from takeback.ledger.transaction import Tx
from takeback.log import logger
from takeback.model import lane as lanes_
from takeback.model.lane import Lane, Room

FULL_LOOK = timedelta(seconds=0.25)
"""How soon a lane is looked at again that others have filled: nothing says when they are done."""

PAUSED_LOOK = timedelta(seconds=1)
"""How soon a paused lane is looked at again at the latest: another worker's probe may end it."""


class Governor:
    """The rooms of the connectors that this app has rows of. Not for several threads at once."""

    def __init__(self, context: Context, pace: Pace) -> None:
        self._connectors = context.registry.connectors
        self._probe_spans = {name: _probe_span(context, pace, name) for name in self._connectors}
        self._is_registered = False
        self._held: Mapping[str, Lane] = {}
        self._rooms: Mapping[str, Room] = {}
        self._now: datetime | None = None

    @property
    def rationed(self) -> Collection[str]:
        """The lanes that had no room when they were last asked about, and only for their rate."""
        return [
            name
            for name, room in self._rooms.items()
            if room.count == 0 and room.ready_at is not None and not self._is_paused(name)
        ]

    def rooms(self, tx: Tx) -> Mapping[str, Room]:
        """The room of each lane that has a row; their rows are locked until ``tx`` ends."""
        return self._opened(tx, self._connectors, lock_lanes)

    def rooms_for(self, tx: Tx, wanted: Sequence[Identity]) -> Mapping[str, Room]:
        """The same of the lanes that ``wanted`` go through, and of no other."""
        if not self._connectors:
            return {}
        return self._opened(tx, self._connectors.keys() & lanes_of(tx, wanted), lock_lanes)

    def rooms_seen(self, tx: Tx) -> Mapping[str, Room]:
        """The room of each lane as it stands, for who claims nothing: no row is locked."""
        return self._opened(tx, self._connectors, read_lanes)

    def _opened(
        self, tx: Tx, names: Collection[str], read: Callable[[Tx, Collection[str]], list[Lane]]
    ) -> Mapping[str, Room]:
        self._held, self._rooms = {}, {}
        if not names:
            return {}
        if not self._is_registered:
            register_lanes(tx, self._connectors.values())
        self._held = {lane.name: lane for lane in read(tx, names)}
        self._is_registered = len(self._held) == len(names)
        traffic = read_traffic(tx, self._held)
        self._now = traffic.now
        self._rooms = {
            name: lanes_.room(
                lane,
                self._connectors[name],
                traffic.now,
                in_flight=traffic.in_flight.get(name, 0),
            )
            for name, lane in self._held.items()
        }
        return {name: self._told(name) for name in names}

    def took(self, tx: Tx, works: Sequence[Work]) -> list[Work]:
        """Takes ``works`` out of their rooms; answers with them, as they are governed."""
        counts = Counter(work.intent.lane for work in works)
        changed = [
            after
            for name, lane in self._held.items()
            if (after := self._after(lane, counts[name])) != lane
        ]
        if changed:
            write_lanes(tx, changed)
        return [self._governed(work) for work in works]

    def _told(self, name: str) -> Room:
        """The room, with when the lane is to be asked about again."""
        room = self._rooms.get(name)
        if room is None or self._now is None:
            return Room(count=0)
        if room.count:
            return room
        if room.ready_at is None:
            return replace(room, ready_at=self._now + FULL_LOOK)
        if self._is_paused(name):
            return replace(room, ready_at=min(room.ready_at, self._now + PAUSED_LOOK))
        return room

    def _is_paused(self, name: str) -> bool:
        return self._connectors[name].breaker is not None and (
            self._held[name].opened_at is not None
        )

    def _after(self, lane: Lane, count: int) -> Lane:
        if not count or self._now is None:
            return lane
        probe_until = None
        if self._rooms[lane.name].is_probe:
            logger.info("connector_probed", connector=lane.name)
            probe_until = self._now + self._probe_spans[lane.name]
        connector = self._connectors[lane.name]
        return lanes_.take(lane, connector, self._now, count, probe_until=probe_until)

    def _governed(self, work: Work) -> Work:
        room = self._rooms.get(work.intent.lane)
        return replace(work, is_probe=True) if room is not None and room.is_probe else work


def _probe_span(context: Context, pace: Pace, name: str) -> timedelta:
    """Longer than a probe can take, from its claim to its end or to that of its worker's lease."""
    spans = [
        effect.attempt_seconds_max
        for effect in (bound.effect for bound in context.registry)
        if isinstance(effect, Remote) and effect.connector == name
    ]
    return pace.lease + timedelta(seconds=max(spans, default=0.0) + GRACE_SECONDS)


def connector_of(context: Context, work: Work) -> Connector | None:
    """The row of the connector that ``work`` goes through, if there is one."""
    known = context.registry.connectors
    return known.get(work.intent.lane)
