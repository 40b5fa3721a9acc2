"""Delivery, measured: drains beside their floor and their peers, with a past, a future and an old
snapshot, through brokers, and how late things begin.

Everything is said as a share of the floor of the same minutes: claiming and settling bare rows, two
statements for a hundred of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import median

from takeback.bench.backlog import fill, old_snapshot
from takeback.bench.draining import drain, floor_drain, record
from takeback.bench.peers import drain_peer, installed
from takeback.bench.waking import Lateness, idle_statements, latenesses
from takeback.bench.woken import drain_woken, latenesses_woken, reachable

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
    lateness_woken: dict[str, list[Lateness]] = field(default_factory=dict)
    idle_statements_per_second: float = 0.0
    peers_missing: list[str] = field(default_factory=list)
    brokers_missing: dict[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        return asdict(self)


@dataclass(slots=True)
class _Taken:
    """Rounds of one measurement, each with the floor before it."""

    speeds: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)


def measure_delivery(
    url: str,
    *,
    intents: int,
    crowd: int,
    rounds: int,
    tick: Callable[[str], None],
    brokers: Mapping[str, str | None],
    arrivals: int = 100,
    idle_seconds: float = 10.0,
) -> Delivery:
    """Everything, ``rounds`` times and interleaved; ``crowd`` is how many settled and how many held
    intents the ledger has in the end. ``brokers`` are URLs by name, None where none is known;
    ``arrivals`` are how many begin to be late, ``idle_seconds`` how long nothing happens.
    """
    found: dict[str, _Taken] = {}
    missing = [name for name, is_here in installed().items() if not is_here]
    woken, unwoken = _sorted_out(brokers)

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
        for name, broker in woken.items():
            take(f"woken_{name}", partial(_woken_drained, url, broker, intents // 5))
        with old_snapshot(url):
            _drained(url, f"dead.{len(found['drain'].speeds)}", "noop", intents * 2)
            take("drain_old_snapshot", lambda stream: _drained(url, stream, "noop", intents))
    tick("lateness")
    lateness = latenesses(url, count=arrivals)
    lateness_woken = {
        name: latenesses_woken(url, broker, count=arrivals) for name, broker in woken.items()
    }
    tick("idle")
    idle = idle_statements(url, seconds=idle_seconds)
    tick(f"{crowd:,} settled and {crowd:,} held")
    fill(url, settled=crowd, held=crowd)
    for _ in range(rounds):
        take("drain_in_a_crowd", lambda stream: _drained(url, stream, "noop", intents))
    return Delivery(
        per_second={name: median(taken.speeds) for name, taken in found.items()},
        of_floor={name: median(taken.shares) for name, taken in found.items()},
        lateness=lateness,
        lateness_woken=lateness_woken,
        idle_statements_per_second=idle,
        peers_missing=missing,
        brokers_missing=unwoken,
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


def _sorted_out(brokers: Mapping[str, str | None]) -> tuple[dict[str, str], dict[str, str]]:
    """The URLs of the brokers that can be used, and why the others can't."""
    there, away = {}, {}
    for name, url in brokers.items():
        why = "none is set" if url is None else reachable(url)
        if url is not None and why is None:
            there[name] = url
        else:
            away[name] = why or ""
    return there, away


def _woken_drained(url: str, broker: str, count: int, _: str) -> float:
    return drain_woken(url, broker, intents=count)


def _peer_drained(url: str, name: str, count: int, _: str) -> float:
    return drain_peer(url, name, count)


def _drained(url: str, stream: str, tool: str, count: int, processes: int = 1) -> float:
    record(url, stream, tool, count)
    return drain(url, processes=processes)
