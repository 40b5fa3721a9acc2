"""The answer of a read: every aggregate, a few rows, and honest about what isn't shown."""

import json
import random
from typing import Any

import pytest

from takeback import Door, Found, Group
from takeback.model.finding import (
    AGGREGATED_BYTES_MAX,
    CHOSEN_BYTES_MAX,
    SAMPLED_BYTES_MAX,
    found,
)

TRACE = "5d2d3aa4dd82c1b8"
STATUSES = ("paid", "open", "refunded", "shipped")


def lean(answer: Found) -> dict[str, Any]:
    return found(answer, TRACE).to_dict()


def size(answer: Found) -> int:
    return len(found(answer, TRACE).to_json().encode())


def orders(count: int, rng: random.Random) -> list[dict[str, Any]]:
    """Orders of about 330 bytes, in four statuses."""
    return [
        {
            "id": f"O-{number}",
            "status": STATUSES[number % 7 % 4],
            "total": f"{rng.randrange(100, 99999) / 100:.2f}",
            "currency": "EUR",
            "customer": f"C-{rng.randrange(1000)} Dana Ruiz",
            "note": "".join(rng.choice("abcdefghij ") for _ in range(200)),
        }
        for number in range(1, count + 1)
    ]


def summed(rows: list[dict[str, Any]]) -> Found:
    """What a careful handler answers with."""
    groups = []
    for status in STATUSES:
        some = [row for row in rows if row["status"] == status]
        total = f"{sum(float(row['total']) for row in some):.2f}"
        groups.append(Group(label=status, count=len(some), totals={"EUR": total}))
    total = f"{sum(float(row['total']) for row in rows):.2f}"
    return Found(
        matches=rows,
        totals={"orders": len(rows), "EUR": total},
        groups=groups,
        group_field="status",
    )


def test_120_items_of_40_kb_are_told_with_every_aggregate_and_three_rows(rng):
    """S3.7: 120 items, 40 KB: at most 1.33 KB, with all aggregates, rows across the groups.

    S3.8: a typed summary, not the beginning of the whole.
    """
    answer = summed(orders(120, rng))
    assert 36_000 < len(json.dumps(answer.matches)) < 44_000
    told = lean(answer)
    assert size(answer) <= 1330
    assert told["totals"] == answer.totals
    assert {one["label"]: (one["count"], one["totals"]) for one in told["groups"]} == {
        one.label: (one.count, one.totals) for one in answer.groups
    }
    assert len(told["matches"]) == 3
    three_largest = [one["label"] for one in told["groups"][:3]]
    assert {row["status"] for row in told["matches"]} == set(three_largest)
    assert (told["matches_not_shown"], told["more_matches_exist"]) == (117, True)


def test_282_kb_of_rows_are_told_in_600_bytes(rng):
    """S3.7: 282 KB: at most 0.6 KB, which is 99.8 % less."""
    rows = orders(890, rng)
    whole = len(json.dumps(rows))
    assert 275_000 < whole < 300_000
    assert size(Found(matches=rows)) <= 600
    assert 1 - size(Found(matches=rows)) / whole >= 0.998


@pytest.mark.parametrize(
    "answer",
    [
        Found(matches=[{"id": "a-1", "text": "x" * 282_000}]),
        Found(matches=[{"id": "a-1"}], result="x" * 282_000),
        Found(matches=[{f"k{n}": n for n in range(30_000)}]),
        Found(matches=[{"id": "a-1", "lines": [{"n": n} for n in range(30_000)]}]),
    ],
    ids=["text", "result", "fields", "list"],
)
def test_one_match_of_282_kb_is_told_in_600_bytes(answer: Found):
    """S3.7."""
    assert size(answer) <= (600 if len(answer.matches[0]) < 100 else CHOSEN_BYTES_MAX)
    assert answer.matches[0].keys() >= lean(answer)["matches"][0].keys()


@pytest.mark.parametrize("aggregated", [False, True])
def test_ten_times_the_rows_make_the_answer_no_longer(aggregated: bool, rng):
    """S3.7: lean never grows with the number of rows."""
    few, many = orders(100, rng), orders(1000, rng)
    sizes = [size(summed(rows) if aggregated else Found(matches=rows)) for rows in (few, many)]
    # The numbers in it may have another digit each; nothing else may grow.
    assert sizes[1] <= sizes[0] + 40
    assert max(sizes) <= (AGGREGATED_BYTES_MAX if aggregated else SAMPLED_BYTES_MAX)


def test_whatever_a_read_finds_its_answer_keeps_within_its_bound(rng):
    for _ in range(300):
        answer = Found(
            matches=[
                {text(rng): value(rng) for _ in range(rng.choice([0, 1, 5, 40]))}
                for _ in range(rng.choice([0, 1, 3, 8, 9, 30]))
            ],
            more_matches_exist=rng.random() < 0.5,
            summary=rng.choice([None, text(rng)]),
            totals={text(rng): value(rng) for _ in range(rng.choice([0, 0, 2, 50]))},
            groups=[
                Group(label=text(rng), count=n, totals={text(rng): n})
                for n in range(rng.choice([0, 0, 3, 100]))
            ],
            not_searched=[text(rng) for _ in range(rng.choice([0, 0, 1, 20]))],
        )
        told = found(answer, TRACE)
        assert len(told.to_json().encode()) <= CHOSEN_BYTES_MAX
        if answer.totals or answer.groups:
            assert len(told.to_json().encode()) <= AGGREGATED_BYTES_MAX
        elif len(answer.matches) > 8:
            assert len(told.to_json().encode()) <= SAMPLED_BYTES_MAX


def text(rng: random.Random) -> str:
    letters = rng.choice(["abc ", "äöü", "\U0001f4ee漢", '"\\\n\x01'])
    return f"{rng.random():.3f}"[1:] + letters * rng.choice([0, 3, 20, 1000])


def value(rng: random.Random) -> Any:
    return rng.choice(
        [text(rng), rng.randrange(10**9), rng.random(), None, True, list(range(100)), {"a": [1]}]
    )


# ── which rows, and what is said of the others ───────────────────────────────────────────────────


def test_eight_matches_or_fewer_were_chosen_by_whoever_found_them_and_all_are_told():
    matches = [{"ref": f"O-{n}", "label": "Espresso machine, twin boiler"} for n in range(8)]
    told = lean(Found(matches=matches, more_matches_exist=True))
    assert told["matches"] == matches
    assert "rows_cut" not in told
    assert (told["matches_not_shown"], told["more_matches_exist"]) == (0, True)


def test_of_more_the_best_three_are_told():
    told = lean(Found(matches=[{"id": n} for n in range(9)]))
    assert [row["id"] for row in told["matches"]] == [0, 1, 2]
    assert (told["matches_not_shown"], told["more_matches_exist"]) == (6, True)


def test_stopped_early_and_only_one_page_are_told_apart():
    """S0.15: ``more_matches_exist`` is true when upstream was cut off or there are more hits."""
    page = [{"id": n} for n in range(3)]
    complete, early = Found(matches=page), Found(matches=page, more_matches_exist=True)
    assert lean(complete)["more_matches_exist"] is False
    assert lean(early)["more_matches_exist"] is True
    assert lean(complete)["summary"] == "3 matches."
    assert lean(early)["summary"] == "3 matches, and there are more."
    counted = lean(Found(matches=page, matches_count=40))
    assert (counted["matches_not_shown"], counted["more_matches_exist"]) == (37, True)


def test_paging_leaves_no_other_trace():
    """S0.15: no cursor, page or offset."""
    told = lean(Found(matches=[{"id": n} for n in range(50)], more_matches_exist=True))
    assert told.keys() == {
        "status", "summary", "matches", "rows_cut", "matches_not_shown", "more_matches_exist",
        "trace_id",
    } - {"rows_cut"}  # fmt: skip


def test_equal_findings_are_told_alike_whatever_the_order_of_their_groups(rng):
    """S0.17: the same call on the same state has the same answer, in the same order."""
    answer = summed(orders(120, rng))
    groups = list(answer.groups)
    first = found(answer, TRACE).to_json()
    for _ in range(10):
        rng.shuffle(groups)
        again = Found(
            matches=answer.matches, totals=answer.totals, groups=groups, group_field="status"
        )
        assert found(again, TRACE).to_json() == first


def test_with_fewer_groups_than_rows_a_group_is_told_twice():
    rows = [{"id": n, "s": "a" if n < 10 else "b"} for n in range(12)]
    groups = [Group(label="a", count=10), Group(label="b", count=2)]
    told = lean(Found(matches=rows, groups=groups, group_field="s"))
    assert [row["id"] for row in told["matches"]] == [0, 1, 10]


def test_aggregates_that_do_not_fit_are_counted():
    groups = [Group(label=f"customer {n}", count=n, totals={"EUR": "1.00"}) for n in range(500)]
    told = lean(Found(matches=[{"id": 1}], groups=groups))
    assert told["aggregates_not_shown"] == 500 - len(told["groups"])
    assert told["groups"][0]["label"] == "customer 499"
    assert told["matches"]


def test_nothing_matched_is_a_success():
    """S0.7: no_matches is no error."""
    told = found(Found(matches=[]), TRACE)
    assert (told.status, told.error) == ("no_matches", None)
    assert told["matches"] == []


def test_a_part_that_was_not_searched_is_named_and_never_taken_for_an_empty_one():
    """S0.17: a collection that failed is never presented as searched. S0.9: down is not empty."""
    some = lean(Found(matches=[{"id": 1}], not_searched=["tickets"]))
    assert (some["status"], some["not_searched"]) == ("ok", ["tickets"])
    none = found(Found(matches=[], not_searched=["tickets"]), TRACE)
    assert (none.status, none.code) == ("unavailable", "provider_unavailable")
    assert none["not_searched"] == ["tickets"]
    assert none["repeat_can_succeed"] is True
    assert "matches" not in none


def test_everything_that_was_found_is_in_the_full_answer(rng):
    """S3.9: leaving it out of lean loses nothing."""
    answer = summed(orders(120, rng))
    everything = found(answer, TRACE).full.disclose(Door.INTERFACE)
    assert everything["matches"] == answer.matches
    assert len(everything["groups"]) == 4


def test_what_was_cut_of_the_rows_is_said():
    told = lean(Found(matches=[{"id": n, "note": "x" * 400} for n in range(8)]))
    assert told["rows_cut"] is True
    assert all(row["note"].endswith("…") for row in told["matches"])
