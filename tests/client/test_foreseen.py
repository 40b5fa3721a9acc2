"""Two sets of affected things, compared: what is new, what is gone, and what can't be told."""

import json
import random
from typing import Any

from takeback import Affected, Handler, Performed
from takeback.catalog.registry import Bound
from takeback.client import previewing
from takeback.client.previewing import (
    AFFECTED_KEPT_MAX,
    DIFFERENCES_TOLD_MAX,
    Foreseen,
    affected_text,
    compare,
    foreseen_before,
    foreseen_of,
)
from takeback.model.ref import ENTROPY_BYTES, is_wellformed, make_ref
from tests.client.catalog import CATALOG

BOUND = Bound(
    tool=next(tool for tool in CATALOG if tool.name == "delete_book"),
    handler=Handler(perform=lambda *_: None),
)


def seen(*ids: str, count: int | None = None, label: str | None = None) -> Foreseen:
    things = [Affected(kind="book", id=id_, label=label) for id_ in ids]
    return foreseen_of(Performed(affected=things, affected_count=count), BOUND)


def differences(before: Foreseen, now: Foreseen) -> list[dict[str, Any]]:
    return [dict(one) for one in compare(json.loads(affected_text(before)), now)]


def test_order_labels_and_a_name_given_twice_make_no_difference():
    assert differences(seen("a", "b", label="A"), seen("b", "a", "b", count=2, label="B")) == []


def test_what_appeared_and_what_is_gone_is_named():
    assert differences(seen("a", "b", label="B"), seen("b", "c", label="C")) == [
        {"field": "affected", "kind": "book", "id": "c", "label": "C", "change": "appeared"},
        {"field": "affected", "kind": "book", "id": "a", "label": "B", "change": "gone"},
    ]


def test_a_name_is_no_other_one_that_reads_the_same_when_joined():
    one = foreseen_of(Performed(affected=[Affected(kind="a", id="bc")]), BOUND)
    other = foreseen_of(Performed(affected=[Affected(kind="ab", id="c")]), BOUND)
    assert len(differences(one, other)) == 2


def test_of_what_is_not_named_the_number_is_compared():
    assert differences(seen("a", count=7), seen("a", count=7)) == []
    assert differences(seen("a", count=7), seen("a", count=8)) == [
        {"field": "affected_count", "previewed": 7, "now": 8}
    ]


def test_many_differences_are_told_by_a_few_and_counted():
    told = differences(seen(), seen(*(f"b{n:03}" for n in range(250))))
    assert len(told) == DIFFERENCES_TOLD_MAX + 1
    assert told[-1] == {"field": "affected", "change": "appeared", "more": 240}


def test_nothing_behind_the_last_kept_name_is_said_to_be_gone():
    many = [f"b{n:06}" for n in range(AFFECTED_KEPT_MAX + 1)]
    before = seen(*many)
    assert differences(before, seen("a", *many)) == [
        {"field": "affected", "kind": "book", "id": "a", "label": "a", "change": "appeared"}
    ]
    assert differences(before, seen(*many[:-1], "c")) == [
        {"field": "affected", "change": "changed", "beyond": AFFECTED_KEPT_MAX}
    ]


def test_random_sets_are_equal_exactly_when_they_hold_the_same(rng: random.Random):
    for _ in range(300):
        one = [f"b{rng.randrange(8)}" for _ in range(rng.randrange(6))]
        other = [f"b{rng.randrange(8)}" for _ in range(rng.randrange(6))]
        told = differences(seen(*one, count=0), seen(*other, count=0))
        appeared = {d["id"] for d in told if d.get("change") == "appeared"}
        gone = {d["id"] for d in told if d.get("change") == "gone"}
        assert (appeared, gone) == (set(other) - set(one), set(one) - set(other))


def test_a_stored_set_is_read_back_as_it_was():
    before = seen("b", "a", label="x")
    again = foreseen_before(json.loads(affected_text(before)))
    assert (again.affected, again.digest) == (before.affected, before.digest)
    assert affected_text(again) == affected_text(before)


def test_so_many_are_kept_and_all_are_told_apart():
    many = [f"b{n:06}" for n in range(AFFECTED_KEPT_MAX + 2)]
    kept = seen(*many)
    assert len(kept.affected) == AFFECTED_KEPT_MAX and kept.affected_count == len(many)
    assert differences(kept, seen(*many)) == []
    assert differences(kept, seen(*many[:-1], "z")) != []


def test_what_a_handler_names_can_be_stored_whatever_it_is():
    odd = [Affected(kind="a\0", id="\ud800", label="ä" * 1000)]
    text = affected_text(foreseen_of(Performed(affected=odd), BOUND))
    assert json.loads(text.encode())["affected"][0]["label"] == "ä" * 200


def test_any_one_wrong_character_of_a_token_is_noticed(rng: random.Random):
    token = make_ref(previewing.TOKEN_WORD, rng.randbytes(ENTROPY_BYTES))
    for place in range(len("preview-"), len(token)):
        for character in "0123456789ABCDEFGHJKMNPQRSTVWXYZ":
            wrong = token[:place] + character + token[place + 1 :]
            assert is_wellformed(wrong) == (wrong == token)
