"""What a dispatcher remembers of the queues, so that it need not look for them at every claim.

A queue is remembered with its low mark (see ``takeback.ledger.claiming``). A mark rises while
claims go through the queue, and stays ``SLACK`` behind the clock: what commits within that time of
its due instant lies above it. What commits later, or is handed back, is found when the dispatcher
looks everywhere, which its worker has it do every second or so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from takeback.declare import Priority
from takeback.ledger.claiming import EVER_US, Agenda, Queue
from takeback.ledger.locking import NOW
from takeback.ledger.projection import PLACE_OF
from takeback.ledger.transaction import Row
from takeback.model.intent import micros
from takeback.model.lane import OPEN, Room

SLACK = timedelta(seconds=1)
"""How late a call may commit and still be found by the next claim: most take milliseconds."""

LOW_FIRST_EVERY = 10
"""One claim in so many begins with the lowest priority, so that nothing waits for ever."""

_SLACK_US = SLACK // timedelta(microseconds=1)

_LANE, _PRIORITY, _DUE_AT = PLACE_OF["lane"], PLACE_OF["priority"], PLACE_OF["due_at"]
_ORDERING = PLACE_OF["ordering"]

Key = tuple[str, int]
"""A lane and a priority: what tells queues apart."""


class Queues:
    """The queues that are known, their low marks, and the lanes that are closed.

    ``has_looked`` says that the marks are known, ``has_passed`` that they rose since.
    """

    def __init__(self, lanes: Iterable[str]) -> None:
        self._lows: dict[Key, int | None] = {
            (lane, priority.value): None for lane in ("", *lanes) for priority in Priority
        }
        self._rooms: Mapping[str, Room] = {}
        self._claims = 0
        self.has_looked = False
        self.has_passed = False

    @property
    def lanes(self) -> list[str]:
        """Each lane once, another one first each time: none is first for ever."""
        lanes = sorted({lane for lane, _ in self._lows})
        first = self._claims % len(lanes)
        return lanes[first:] + lanes[:first]

    def look_everywhere(self) -> None:
        """Forgets the marks: the next look finds what lies below them."""
        self._lows = dict.fromkeys(self._lows)
        self.has_looked = False

    def learn(self, agenda: Agenda) -> None:
        """Takes over what a look everywhere has found."""
        highest = agenda.now_us - _SLACK_US
        for queue in agenda.queues:
            first = highest if queue.low_us == EVER_US else min(queue.low_us, highest)
            self._lows[queue.lane, queue.priority] = first
        self.has_looked = True
        self.has_passed = False

    def to_claim(self, rooms: Mapping[str, Room], limit: int) -> Sequence[Queue]:
        """The queues in the order of a claim: by priority, and in each the lanes in turn."""
        self._rooms = rooms
        self._claims += 1
        low_first = self._claims % LOW_FIRST_EVERY == 0
        priorities = sorted({priority for _, priority in self._lows}, reverse=not low_first)
        lanes = self.lanes
        return [
            self._queue((lane, priority), limit)
            for priority in priorities
            for lane in lanes
            if (lane, priority) in self._lows
        ]

    def to_look_at(self) -> Sequence[Queue]:
        """The queues as an agenda wants them."""
        return [self._queue(key, 0) for key in self._lows]

    def pass_by(self, claimed: Sequence[Row], left: Sequence[Row]) -> None:
        """Raises the marks to what was claimed, and to nothing that was left as it is.

        Nor where something has an ordering: those after it, which nobody was shown, come next.
        """
        for row in claimed:
            key = row[_LANE], row[_PRIORITY]
            low_us = min(row[_DUE_AT], row[NOW] - _SLACK_US)
            self._lows[key] = max(self._lows.get(key) or EVER_US, low_us)
            self.has_passed = True
        for row in [*left, *(row for row in claimed if row[_ORDERING] is not None)]:
            self._lows[row[_LANE], row[_PRIORITY]] = None

    def _queue(self, key: Key, limit: int) -> Queue:
        lane, priority = key
        room = self._rooms.get(lane, OPEN)
        low_us = self._lows[key]
        queue = Queue(
            lane=lane,
            priority=priority,
            low_us=EVER_US if low_us is None else low_us,
            room=min(room.count, limit),
        )
        if room.ready_at is None or room.count != 0:
            return queue
        return replace(queue, opens_us=micros(room.ready_at))


def fitting(due: Sequence[Row], rooms: Mapping[str, Room]) -> list[Row]:
    """Of what is due as much as its lane has room for, the first first."""
    counts: Counter[str] = Counter()
    kept = []
    for row in due:
        lane = row[_LANE]
        if counts[lane] < rooms.get(lane, OPEN).count:
            counts[lane] += 1
            kept.append(row)
    return kept
