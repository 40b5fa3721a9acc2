"""Reads what there is to tell at each fetch: the meter, how the process is, and the ledger.

The ledger is looked at by a thread of its own, one look at a time, and once it has answered not
again for five seconds, however many fetch; one that does not answer is said to be down, and keeps
nobody waiting for the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector as PrometheusCollector

from takeback.dispatch.pulse import Pulse
from takeback.ledger.backlog import Backlog
from takeback.ledger.health import LaneHealth
from takeback.meter import BOUNDS_SECONDS, Meter, Reading, Spread
from takeback.metrics import family as names
from takeback.metrics.family import COUNTS, SPANS, Family
from takeback.model import errors

LOOK_SECONDS = 5.0
"""A ledger that was looked at so recently is not looked at again."""

WAIT_SECONDS_MAX = 2.0
"""So long a fetch waits for the ledger: whoever fetches gives up after ten."""

_BOUNDS = (*(f"{bound:g}" for bound in BOUNDS_SECONDS), "+Inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What metrics are read from. ``process`` is the kind: worker, ticker or actors.

    ``pulse`` says how it is, None before it has begun; ``backlog`` looks at the ledger, and raises
    Unavailable.
    """

    process: str
    version: str
    meter: Meter
    pulse: Callable[[], Pulse | None]
    backlog: Callable[[], Backlog]
    monotonic: Callable[[], float]


class Lookout:
    """Looks at the ledger for all who fetch; for several threads at once."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._lock = threading.Lock()
        self._seen: Backlog | None = None
        self._seen_at = 0.0
        self._looking: threading.Event | None = None

    def look(self) -> Backlog | None:
        """What is seen now, or was a moment ago; None where the ledger doesn't answer."""
        with self._lock:
            if self._is_fresh():
                return self._seen
            looking = self._looking
            if looking is None:
                looking = self._looking = threading.Event()
                threading.Thread(
                    target=self._look, args=(looking,), name="takeback-lookout", daemon=True
                ).start()
        looking.wait(WAIT_SECONDS_MAX)
        with self._lock:
            return self._seen if self._is_fresh() else None

    def _is_fresh(self) -> bool:
        return self._seen is not None and (self._watched.monotonic() - self._seen_at < LOOK_SECONDS)

    def _look(self, looking: threading.Event) -> None:
        seen: Backlog | None = None
        try:
            with suppress(errors.TakebackError):
                seen = self._watched.backlog()
        finally:
            with self._lock:
                self._seen, self._seen_at = seen, self._watched.monotonic()
                self._looking = None
            looking.set()


class Collector(PrometheusCollector):
    """Answers each fetch with every metric that there is something to say of."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._lookout = Lookout(watched)

    def collect(self) -> Iterator[Metric]:
        """The metrics as they stand now."""
        reading = self._watched.meter.read()
        yield from _counted(reading)
        yield from self._of_process(reading)
        yield from _of_ledger(self._lookout.look())

    def _of_process(self, reading: Reading) -> Iterator[Metric]:
        watched, pulse = self._watched, self._watched.pulse()
        yield _gauge(names.INFO, {(watched.process, watched.version): 1})
        if pulse is not None:
            yield _gauge(names.IN_FLIGHT, {(): pulse.busy})
            yield _gauge(names.OUTCOMES_OPEN, {(): pulse.open})
            yield _gauge(names.ABANDONED, {(): pulse.abandoned})
            yield _gauge(names.SUCCESS_AGE, {(): pulse.seconds_since_success})
        if reading.seconds_since_succeeded is not None:
            yield _gauge(names.SUCCEEDED_AGE, {(): reading.seconds_since_succeeded})


def _counted(reading: Reading) -> Iterator[Metric]:
    for count, family in COUNTS.items():
        counter = CounterMetricFamily(family.name, family.says, labels=family.labels)
        counted = reading.counts[count]
        if not family.labels:
            counted = {(): 0, **counted}
        for labels, number in counted.items():
            counter.add_metric(labels, number)
        yield counter
    for span, family in SPANS.items():
        histogram = HistogramMetricFamily(family.name, family.says, labels=family.labels)
        for labels, spread in reading.spreads[span].items():
            histogram.add_metric(labels, _buckets(spread), spread.seconds)
        yield histogram


def _buckets(spread: Spread) -> list[tuple[str, float]]:
    return list(zip(_BOUNDS, map(float, spread.within()), strict=True))


def _of_ledger(backlog: Backlog | None) -> Iterator[Metric]:
    yield _gauge(names.LEDGER_UP, {(): backlog is not None})
    if backlog is None:
        return
    yield _gauge(names.DUE, {(tool,): count for tool, count in backlog.due.items()})
    yield _gauge(names.OLDEST_DUE_AGE, {(): backlog.oldest_due_seconds})
    yield _gauge(names.STOPPED, {(state, tool): n for (state, tool), n in backlog.stopped.items()})
    yield _gauge(names.EXPIRED, {(): backlog.expired_leases})
    yield _gauge(names.FREEZES, {(): backlog.freezes})
    lanes = {one.lane.name: one for one in backlog.lanes}
    yield _gauge(
        names.CONNECTOR_STATE,
        {
            (name, state): state == _state_of(one, backlog.now)
            for name, one in lanes.items()
            for state in ("closed", "paused", "probing")
        },
    )
    yield _gauge(names.CONNECTOR_IN_FLIGHT, {(n,): one.in_flight for n, one in lanes.items()})
    yield _gauge(names.CONNECTOR_DUE, {(n,): one.due for n, one in lanes.items()})
    yield _gauge(names.CONNECTOR_FAILURES, {(n,): one.lane.failures for n, one in lanes.items()})


def _state_of(one: LaneHealth, now: datetime) -> str:
    if one.lane.opened_at is None:
        return "closed"
    probe_until = one.lane.probe_until
    return "probing" if probe_until is not None and now < probe_until else "paused"


def _gauge(family: Family, values: Mapping[tuple[str, ...], float]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(family.name, family.says, labels=family.labels)
    for labels, value in values.items():
        gauge.add_metric(labels, float(value))
    return gauge
