"""Runs the measurements on a database of their own and prints them, as tables or as JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from takeback.bench.delivery import Delivery, broken_of, measure_delivery
from takeback.bench.place import brokers_of, own_database, progress_bar
from takeback.bench.recording import DRIVERS, VARIANTS, Rate, rates
from takeback.bench.repeating import Speed, measure
from takeback.bench.starting import Start, starts
from takeback.bench.subject import prepare_database, python_version

CLIENTS = (1, 4)
ROUNDS = 5
TRANSACTIONS = 400
INTENTS = 10_000
CROWD = 1_000_000
CROWD_QUICK = 5_000
DELIVERY_ROUNDS = 3
ARRIVALS = 100
ARRIVALS_QUICK = 20

# What is promised of a start, on a machine that does nothing else.
COLD_SECONDS_MAX = 3.0
WARM_SECONDS_MAX = 1.0

# At least, and the goal, of the bare transaction's throughput, for one client and for four.
TARGETS = {1: (0.45, 0.51), 4: (0.50, 0.59)}


def main(*, json_output: bool = False, quick: bool = False, brokers: Sequence[str] = ()) -> int:
    """Measures and prints; answers with 1 when a promise is not kept, else with 0.

    ``quick`` takes a tenth of the time, says less, and judges no promise. ``brokers`` are URLs, in
    place of the setting's. Raises InvalidSettings.
    """
    rounds, transactions, intents = (1, 20, 300) if quick else (ROUNDS, TRANSACTIONS, INTENTS)
    recorded: list[Rate] = []
    with own_database() as (url, version), progress_bar(json_output=json_output) as progress:
        prepare_database(url)
        delivery_rounds = min(rounds, DELIVERY_ROUNDS)
        steps = len(CLIENTS) * rounds * len(DRIVERS) * len(VARIANTS) + rounds * 4
        steps += delivery_rounds * 9 + 3
        task = progress.add_task("starting", total=steps)

        def tick(what: str) -> None:
            progress.update(task, description=what, advance=1)

        for clients in CLIENTS:
            recorded += rates(url, clients=clients, count=transactions, rounds=rounds, tick=tick)
        speeds = measure(url, intents=intents, rounds=rounds, tick=tick)
        start = starts(rounds=rounds, tick=tick)
        delivery = measure_delivery(
            url,
            intents=intents,
            crowd=CROWD_QUICK if quick else CROWD,
            rounds=delivery_rounds,
            tick=tick,
            brokers=brokers_of(brokers),
            arrivals=ARRIVALS_QUICK if quick else ARRIVALS,
        )
    broken = [] if quick else [*_broken(recorded, start), *broken_of(delivery)]
    document = {
        "postgres": version,
        "python": python_version(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "rounds": rounds,
        "recording": [_with_share(rate, recorded) for rate in recorded],
        "speeds": {speed.name: round(speed.per_second, 1) for speed in speeds},
        "embedded": asdict(start),
        "delivery": delivery.document(),
        "broken_promises": broken,
    }
    if json_output:
        print(json.dumps(document))
    else:
        _print(document, recorded, speeds, start)
        _print_delivery(delivery)
        for promise in broken:
            print(f"not kept: {promise}")
    return 1 if broken else 0


def _broken(recorded: list[Rate], start: Start) -> list[str]:
    """The promises that this run did not keep; a quick run is too short to say."""
    broken = [
        f"{rate.clients} client(s) keep {_share(rate, recorded):.2f} of the bare transaction, "
        f"at least {TARGETS[rate.clients][0]:.2f} was promised"
        for rate in recorded
        if (rate.driver, rate.variant) == ("psycopg", "call")
        and _share(rate, recorded) < TARGETS[rate.clients][0]
    ]
    for name, seconds, most in (
        ("cold", start.cold_seconds, COLD_SECONDS_MAX),
        ("warm", start.warm_seconds, WARM_SECONDS_MAX),
    ):
        if seconds > most:
            broken.append(f"a {name} start took {seconds:.2f} s, at most {most:g} s was promised")
    return broken


def _with_share(rate: Rate, all_: list[Rate]) -> dict[str, object]:
    return asdict(rate) | {"share_of_bare": round(_share(rate, all_), 3)}


def _share(rate: Rate, all_: list[Rate]) -> float:
    bare = next(
        one
        for one in all_
        if (one.driver, one.clients, one.variant) == (rate.driver, rate.clients, "bare")
    )
    return rate.per_second / bare.per_second


def _print(
    document: dict[str, object], recorded: list[Rate], speeds: list[Speed], start: Start
) -> None:
    console = Console()
    console.print(
        f"Postgres {document['postgres']}, Python {document['python']}, {document['machine']}; "
        f"medians of {document['rounds']}"
    )
    table = Table(title="One business write, one call, one commit", title_justify="left")
    for column in ("clients", "through", "with", "per s", "of bare", "client CPU ms", "statements"):
        table.add_column(column, justify="right" if column not in ("through", "with") else "left")
    for rate in recorded:
        table.add_row(
            str(rate.clients),
            rate.driver,
            rate.variant.replace("_", " "),
            f"{rate.per_second:,.0f}",
            f"{_share(rate, recorded):.2f}",
            f"{rate.cpu_ms:.2f}",
            f"{rate.statements:.1f}",
        )
    console.print(table)
    for clients, (least, goal) in TARGETS.items():
        shares = [
            f"{r.driver} {_share(r, recorded):.2f}"
            for r in recorded
            if r.clients == clients and r.variant == "call"
        ]
        console.print(f"{clients} client(s): {', '.join(shares)} (at least {least}, goal {goal})")
    other = Table(title="Others, a second", title_justify="left")
    other.add_column("what")
    other.add_column("per s", justify="right")
    for speed in speeds:
        other.add_row(speed.name.replace("_", " "), f"{speed.per_second:,.0f}")
    console.print(other)
    console.print(
        f"Embedded Postgres to its first query: cold {start.cold_seconds:.2f} s, "
        f"warm {start.warm_seconds:.2f} s"
    )


def _print_delivery(found: Delivery) -> None:
    console = Console()
    table = Table(title="Carrying out no-ops", title_justify="left")
    for column in ("what", "per s", "of the floor"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for name, speed in found.per_second.items():
        table.add_row(name.replace("_", " "), f"{speed:,.0f}", f"{found.of_floor[name]:.2f}")
    console.print(table)
    late = Table(title="From due to start, ms", title_justify="left")
    for column in ("through", "arriving", "p50", "p99"):
        late.add_column(column, justify="right" if column in ("p50", "p99") else "left")
    for through, every in {"a worker": found.lateness, **found.lateness_woken}.items():
        for one in every:
            name = one.name.replace("_", " ")
            late.add_row(through, name, f"{one.p50_ms:.0f}", f"{one.p99_ms:.0f}")
    console.print(late)
    console.print(f"Idle: {found.idle_statements_per_second:.2f} statements a second")
    for name in found.peers_missing:
        console.print(f"{name} is not installed, and was left out (dependency group: peers)")
    for name, why in found.brokers_missing.items():
        console.print(f"{name} was left out: {why}")


if __name__ == "__main__":
    sys.exit(main())
