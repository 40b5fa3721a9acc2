"""What "did you mean" stands on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.model.likeness import distance, folded, look_alikes, nearest_first

WORDS = st.text("abcd_", max_size=8)


@pytest.mark.parametrize(
    "one, other, edits",
    [
        ("", "", 0),
        ("", "abc", 3),
        ("open", "open", 0),
        ("open", "opne", 1),
        ("pending", "pendin", 1),
        ("kitten", "sitting", 3),
        ("ab", "ba", 1),
        ("abcd", "badc", 2),
    ],
)
def test_distance_counts_single_edits_and_swaps(one, other, edits):
    assert distance(one, other) == edits


@given(WORDS, WORDS)
def test_distance_is_symmetric_and_zero_only_for_equal_words(one, other):
    assert distance(one, other) == distance(other, one)
    assert (distance(one, other) == 0) == (one == other)


@given(WORDS, WORDS)
def test_distance_is_bounded_by_the_longer_word(one, other):
    assert abs(len(one) - len(other)) <= distance(one, other) <= max(len(one), len(other))


@pytest.mark.parametrize(
    "spelling", ["requested_by_customer", "Requested By-Customer", " REQUESTED-BY-CUSTOMER\n"]
)
def test_folding_takes_off_what_people_spell_as_they_like(spelling):
    assert folded(spelling) == "requested_by_customer"


def test_nearest_first_prefers_a_common_beginning():
    assert nearest_first("clos", ["open", "closed", "cost"])[0] == "closed"


def test_equally_like_words_keep_their_order():
    assert nearest_first("zzz", ["b", "a", "c"]) == ["b", "a", "c"]


def test_a_megabyte_is_compared_by_its_beginning():
    assert nearest_first("open" + "x" * 1_000_000, ["closed", "open"]) == ["open", "closed"]
    assert look_alikes("x" * 1_000_000, ["open"]) == []


def test_look_alikes_are_near_and_not_the_word_itself():
    words = ["open", "opened", "opne", "closed", "pen"]
    assert look_alikes("open", words) == ["opne", "pen", "opened"]
