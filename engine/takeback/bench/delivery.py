"""Delivery, measured: drains beside their floor and their peers, with a past, a future and an old
snapshot, and how late things begin.

Everything is said as a share of the floor of the same minutes: claiming and settling bare rows, two
statements for a hundred of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import median

from takeback.bench.backlog import fill, old_snapshot
from takeback.bench.carrying_out import floor_drain
from takeback.bench.draining import drain, record
from takeback.bench.peers import drain_peer, installed
from takeback.bench.waking import Lateness, idle_statements, latenesses

# At least: of the floor, with one process and with two; of one's own speed, with a future and past
# of this size, and with an old snapshot. The first two are what 12,000 and 16,000 were of the floor
# where the peers were measured.
SHARE_MIN = {1: 0.26, 2: 0.30}
FUTURE_MIN = 0.95
SNAPSHOT_MIN = 0.9
LATENESS_MAX = {"at_once": (10.0, 30.0), "spread": (10.0, 30.0), "immediate": (10.0, 40.0)}
IDLE_MAX = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What was found: intents a second, and each as a share of the floor beside it."""

    per_second: dict[str, float] = field(default_factory=dict)
    of_floor: dict[str, float] = field(default_factory=dict)
    lateness: list[Lateness] = field(default_factory=list)
    idle_statements_per_second: float = 0.0
    peers_missing: list[str] = field(default_factory=list)

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        return asdict(self)


@dataclass(slots=True)
class _Taken:
    """Rounds of one measurement, each with the floor before it."""

    speeds: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)


def measure_delivery(
    url: str, *, intents: int, crowd: int, rounds: int, tick: Callable[[str], None]
) -> Delivery:
    """Everything, ``rounds`` times and interleaved; ``crowd`` is how many settled and how many held
    intents the ledger has in the end.
    """
    found: dict[str, _Taken] = {}
    missing = [name for name, is_here in installed().items() if not is_here]

    def take(name: str, speed: Callable[[str], float]) -> None:
        taken = found.setdefault(name, _Taken())
        tick(name.replace("_", " "))
        floor = floor_drain(url, intents)
        taken.speeds.append(speed(f"{name}.{len(taken.speeds)}"))
        taken.shares.append(taken.speeds[-1] / floor)

    for _ in range(rounds):
        take("drain", lambda stream: _drained(url, stream, "noop", intents))
        take("drain_two_processes", lambda stream: _drained(url, stream, "noop", intents, 2))
        take("drain_blind", lambda stream: _drained(url, stream, "noop_blind", intents // 5))
        for name, is_here in installed().items():
            if is_here:
                take(name, partial(_peer_drained, url, name, intents))
        with old_snapshot(url):
            _drained(url, f"dead.{len(found['drain'].speeds)}", "noop", intents * 2)
            take("drain_old_snapshot", lambda stream: _drained(url, stream, "noop", intents))
    tick("lateness")
    lateness = latenesses(url, count=100)
    tick("idle")
    idle = idle_statements(url, seconds=10.0)
    tick(f"{crowd:,} settled and {crowd:,} held")
    fill(url, settled=crowd, held=crowd)
    for _ in range(rounds):
        take("drain_in_a_crowd", lambda stream: _drained(url, stream, "noop", intents))
    return Delivery(
        per_second={name: median(taken.speeds) for name, taken in found.items()},
        of_floor={name: median(taken.shares) for name, taken in found.items()},
        lateness=lateness,
        idle_statements_per_second=idle,
        peers_missing=missing,
    )


def broken_of(found: Delivery) -> list[str]:
    """The promises of delivery that were not kept."""
    shares = found.of_floor
    promised = [
        ("drain", SHARE_MIN[1], shares["drain"], "of the floor"),
        ("two processes", SHARE_MIN[2], shares["drain_two_processes"], "of the floor"),
        ("a crowd", FUTURE_MIN, shares["drain_in_a_crowd"] / shares["drain"], "of its speed"),
        (
            "an old snapshot",
            SNAPSHOT_MIN,
            shares["drain_old_snapshot"] / shares["drain"],
            "of its speed",
        ),
    ]
    broken = [
        f"{name} keeps {is_:.2f} {of}, at least {least:.2f} was promised"
        for name, least, is_, of in promised
        if is_ < least
    ]
    for one in found.lateness:
        for word, is_ms, most_ms in zip(
            ("p50", "p99"),
            (one.p50_ms, one.p99_ms),
            LATENESS_MAX.get(one.name, (float("inf"), float("inf"))),
            strict=True,
        ):
            if is_ms > most_ms:
                broken.append(
                    f"{one.name}: {word} is {is_ms:.0f} ms, at most {most_ms:g} was promised"
                )
    if found.idle_statements_per_second > IDLE_MAX:
        broken.append(
            f"an idle worker says {found.idle_statements_per_second:.2f} statements a second, "
            f"at most {IDLE_MAX:g} was promised"
        )
    return broken


def _peer_drained(url: str, name: str, count: int, _: str) -> float:
    return drain_peer(url, name, count)


def _drained(url: str, stream: str, tool: str, count: int, processes: int = 1) -> float:
    record(url, stream, tool, count)
    return drain(url, processes=processes)
