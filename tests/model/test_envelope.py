"""An answer about an intent: short, and told whatever its arguments are."""

import random
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from takeback.declare import BLIND, COMPENSATE, Affects, Remote, Tool, Wording
from takeback.model import event as events
from takeback.model.arguments import Difference
from takeback.model.envelope import AFFECTED_SHOWN_MAX, Replay, answer
from tests.model.history import claimed, failed, given, recorded, running, succeeded


class Order(BaseModel):
    what: Any
    amount: int | None = None


ROW = Tool(
    "place_order",
    Order,
    effect=Remote(upstream=BLIND),
    description="Orders it.",
    key=("what",),
    affects=Affects(kind="order", id="what"),
)


def told(arguments: dict[str, Any], subject: str) -> dict[str, Any]:
    """The answer about a held call with those arguments."""
    tool = replace(ROW, wording=Wording(subject=subject, undo=f"undoes {subject}"))
    return answer(given(recorded()), tool, {"arguments": arguments}).to_dict()


@pytest.mark.parametrize(
    "long",
    ["x" * 100_000, list(range(100_000)), {f"k{n}": n for n in range(100_000)}, {"k" * 100_000: 1}],
    ids=["text", "list", "object", "name"],
)
def test_a_sentence_about_a_long_argument_stays_short(long):
    document = told({"what": long}, "Order of {what}")
    assert len(document["summary"]) + len(document["restore"]["does"]) < 700
    assert len(document["affected"][0]["id"]) < 300


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"amount": 1234567}, "Order for 1,234,567 of 'ink' is"),
        ({"amount": None}, "Order for None of 'ink' is"),
        ({}, "Order for \u2026 of 'ink' is"),
    ],
)
def test_a_form_that_does_not_suit_a_value_is_left_out(arguments, said):
    document = told({"what": "ink", **arguments}, "Order for {amount:,} of {what!r}")
    assert document["summary"].startswith(said)


def test_what_an_argument_says_is_never_taken_for_a_template():
    document = told({"what": "{until} {amount.real} {} {0!r:>999}", "amount": 1}, "Order of {what}")
    assert document["summary"].startswith("Order of {until} {amount.real} {} {0!r:>999} is")


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────

LEAN_BYTES_MAX = 8_000
"""Of an answer about an intent in which everything that others have said is as long as can be."""


def stored(rng: random.Random) -> dict[str, Any]:
    """Bodies in which everything may be of any size."""

    def text() -> str:
        letters = rng.choice(["abc ", "äöü", "\U0001f4ee漢", '"\\\n\x01'])
        return letters * rng.choice([0, 1, 20, 2000])

    rows = [{"kind": text(), "id": text(), "label": text()} for _ in range(rng.choice([0, 3, 50]))]
    return {
        "arguments": {"what": rng.choice([text(), [text()] * 30, {text(): text()}, 1.0, None])},
        "result": {
            "result": text(),
            "affected": rows,
            "affected_count": rng.choice([len(rows), 10**12]),
            "affected_by_kind": {text(): n for n in range(rng.choice([0, 2, 30]))},
            "summary": rng.choice([None, text()]),
            "leaves": [text() for _ in range(rng.choice([0, 2, 300]))],
        },
        "error": {
            "code": "provider_rejected",
            "message": text(),
            "alternatives": [text() for _ in range(rng.choice([0, 2, 300]))],
        },
    }


def test_whatever_was_stored_the_answer_keeps_within_its_bound(rng):
    """S3.7: lean grows neither with rows nor with arguments."""
    begun = (recorded(), *running(1))
    ends = ((), (succeeded(1),), (failed(1),))
    situations = [given(recorded()), *(given(*begun, *end) for end in ends)]
    tool = replace(ROW, wording=Wording(subject="Order of {what}", undo="undoes {what}"))
    for _ in range(60):
        bodies = stored(rng)
        differs = [
            Difference(field="f" * rng.choice([1, 5000]), first="x" * 9000, now=list(range(9000)))
            for _ in range(rng.choice([0, 1, 400]))
        ]
        for intent in situations:
            told = answer(intent, tool, bodies, replay=Replay(differs=differs, stands=False))
            assert len(told.to_json().encode()) <= LEAN_BYTES_MAX
            assert told["affected_count"] >= len(told.affected) <= AFFECTED_SHOWN_MAX
            # S3.8: it always has these, however much had to be left out.
            assert {"status", "affected", "restore"} <= told.keys()
            if told["restore"]:
                assert told["restore"]["arguments"] == {"ref": intent.ref}


def test_of_many_differences_a_few_are_told_and_all_are_counted():
    differs = [Difference(field=f"lines.{n}", first=n, now=-n) for n in range(400)]
    told = answer(given(recorded()), ROW, {}, replay=Replay(differs=differs))
    assert [one["field"] for one in told["differs"]] == [f"lines.{n}" for n in range(5)]
    assert told["differs_count"] == 400


def test_what_remains_after_many_leaves_is_counted():
    leaves = [f"trace {n}" for n in range(40)]
    intent = given(recorded(), *running(1), succeeded(1))
    row = replace(ROW, effect=Remote(upstream=BLIND, reversal=COMPENSATE))
    told = answer(intent, row, {"result": {"leaves": leaves}})
    assert told["restore"]["leaves"] == [*leaves[:5], "and 35 more"]


@pytest.mark.parametrize(
    "before, after",
    [({"what": 5.0}, {"what": 5}), ({"what": {"b": 1, "a": 2.0}}, {"what": {"a": 2, "b": 1}})],
    ids=["number", "object"],
)
def test_a_sentence_is_the_same_before_and_after_its_arguments_were_stored(before, after):
    """S2.8: what canonical JSON writes otherwise than Python is told in one way."""
    assert told(before, "Order of {what}") == told(after, "Order of {what}")


def test_the_trace_id_follows_from_the_intent_and_tells_it_to_nobody():
    """S0.5: no UUID in a lean payload."""
    intent = given(recorded())
    document = answer(intent, ROW, {})
    assert document["trace_id"] == intent.id.hex[-16:]
    assert str(intent.id) not in document.to_json()


def test_an_outcome_whose_body_was_lost_still_says_how_many_were_affected():
    intent = given(recorded(), *running(1), succeeded(1))
    assert answer(intent, ROW, {"arguments": {"what": "ink"}})["affected_count"] == 3


def test_what_is_parked_before_it_could_begin_is_known_to_have_done_nothing():
    """A person has to look, as at what is in doubt, and nothing of it can be in the world."""
    held_back = given(recorded(), claimed(), events.Parked(attempt=0, cause="altered"))
    unknown = given(
        recorded(),
        *running(1),
        events.InDoubt(attempt=1, cause="exception"),
        events.Parked(attempt=1, cause="outcome_unknown"),
    )
    says = [answer(one, ROW, {"arguments": {"what": "ink"}}) for one in (held_back, unknown)]
    assert [one.status for one in says] == ["in_doubt", "in_doubt"]
    assert [one["effect"] for one in says] == ["none", "unknown"]
    assert "has not begun" in says[0].summary
    assert "may or may not have happened" in says[1].summary
    assert says[0]["no_restore"].startswith("it has not begun")
