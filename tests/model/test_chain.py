"""The chain's bytes are fixed for ever: a log written today is proven by every later release."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from takeback.model.chain import GENESIS, body_digest, chain_hash

INTENT = UUID("01890a5d-ac96-774b-bcce-b302099a8057")

FIRST: dict[str, Any] = {
    "previous": GENESIS,
    "tenant": "default",
    "intent_id": INTENT,
    "version": 1,
    "position": 1,
    "kind": "intent.due",
    "schema": 1,
    "at_us": 0,
    "payload": "{}",
}
FIRST_HASH = "45afc532b9d6c79fb1859f68275f5678bcca54a8852c0eb38ce3266e559a132e"

# The vectors were computed apart from the module, with `struct` and its ">i" and ">q".
GOLDEN = [
    pytest.param(FIRST, FIRST_HASH, id="the first event"),
    pytest.param(
        {
            "previous": bytes.fromhex(FIRST_HASH),
            "tenant": "münchen",
            "intent_id": INTENT,
            "version": 2,
            "position": 9_007_199_254_740_993,
            "kind": "intent.attempt_began",
            "schema": 1,
            "at_us": 1_767_225_600_123_456,
            "payload": '{"attempt":1,"epoch":0}',
        },
        "da65fd171d22b300444246e379b134646f8ff3010616b7daeaf8058bf3bb283a",
        id="the second, a tenant outside ASCII, a position that no float can hold",
    ),
    pytest.param(
        {
            "previous": bytes.fromhex(
                "da65fd171d22b300444246e379b134646f8ff3010616b7daeaf8058bf3bb283a"
            ),
            "tenant": "",
            "intent_id": UUID(int=0),
            "version": 2**31 - 1,
            "position": 2**63 - 1,
            "kind": "",
            "schema": 0,
            "at_us": -1,
            "payload": "",
        },
        "578ffd4d5c6d6f7b935560f9f7d693d6a51448515cd22b54d1668fa38d4d7c17",
        id="the bounds of every type",
    ),
]

# No surrogates, which UTF-8 can't hold, and no NUL, which Postgres can't.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "previous": st.binary(min_size=32, max_size=32),
    "tenant": TEXT,
    "intent_id": st.uuids(),
    "version": st.integers(1, 2**31 - 1),
    "position": st.integers(1, 2**63 - 1),
    "kind": TEXT,
    "schema": st.integers(1, 2**31 - 1),
    "at_us": st.integers(-(2**63), 2**63 - 1),
    "payload": TEXT,
}


@pytest.mark.parametrize(("fields", "expected"), GOLDEN)
def test_golden_vectors_never_change(fields, expected):
    assert chain_hash(**fields).hex() == expected


@given(fields=st.fixed_dictionaries(FIELDS), name=st.sampled_from(sorted(FIELDS)), data=st.data())
def test_any_changed_field_changes_the_hash(fields, name, data):
    other = data.draw(FIELDS[name])
    assume(other != fields[name])
    assert chain_hash(**fields) != chain_hash(**{**fields, name: other})


@given(left=st.fixed_dictionaries(FIELDS), right=st.fixed_dictionaries(FIELDS))
def test_two_events_share_a_hash_only_if_they_are_equal(left, right):
    assert (chain_hash(**left) == chain_hash(**right)) == (left == right)


def test_a_byte_moved_between_neighbouring_texts_changes_the_hash():
    moved = {**FIRST, "tenant": "defaul", "kind": "tintent.due"}
    assert chain_hash(**moved) != chain_hash(**FIRST)
    assert chain_hash(**{**FIRST, "kind": "intent.du", "payload": "e{}"}) != chain_hash(**FIRST)


def test_the_hash_before_the_first_is_32_zero_bytes():
    assert bytes(32) == GENESIS


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_previous_hash_of_another_length_is_refused(length):
    with pytest.raises(ValueError, match=f"32 bytes, found {length}"):
        chain_hash(**{**FIRST, "previous": bytes(length)})


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("version", 2**31),
        ("schema", 2**31),
        ("schema", -(2**31) - 1),
        ("position", 2**63),
        ("at_us", 2**63),
        ("at_us", -(2**63) - 1),
    ],
)
def test_a_number_that_its_column_cannot_hold_is_refused(name, number):
    with pytest.raises(OverflowError):
        chain_hash(**{**FIRST, name: number})


@pytest.mark.parametrize(
    ("salt", "body", "expected"),
    [
        (
            bytes(32),
            '{"to":"ann@example.com"}',
            "85d7cfa450bbcb9db99d164068538b45743a8eb7590a84ae4e6607c921e92c3c",
        ),
        (
            bytes(range(32)),
            "né",
            "d174b58164b64d3aaf9bf5e73a12f17eac7f3366f8cc2b4d95220582e7c6da72",
        ),
        (
            bytes(range(32)),
            "",
            "630dcd2966c4336691125448bbb25b4ff412a49c732db2c8abc1b8581bd710dd",
        ),
    ],
)
def test_golden_digests_of_bodies_never_change(salt, body, expected):
    assert body_digest(salt, body) == expected


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_a_salt_of_another_length_is_refused(length):
    with pytest.raises(ValueError, match=f"32 bytes, found {length}"):
        body_digest(bytes(length), "body")


@given(
    salts=st.tuples(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32)),
    bodies=st.tuples(TEXT, TEXT),
)
def test_two_digests_are_equal_only_for_the_same_salt_and_body(salts, bodies):
    same = salts[0] == salts[1] and bodies[0] == bodies[1]
    assert (body_digest(salts[0], bodies[0]) == body_digest(salts[1], bodies[1])) == same
