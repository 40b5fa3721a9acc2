"""Keys: every spelling of a call has one, and no two calls share one."""

import hashlib
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

import takeback
from takeback.declare import FOREVER, RUN, Key, hours, window
from takeback.model.arguments import validate
from takeback.model.errors import CallerError, InvalidArguments, InvalidCatalog
from takeback.model.key import canonical_bytes, derive_key
from tests.model.sample import CALL, MAIL, key, key_of, row

GOLDEN = Path(__file__).parent / "golden" / "keys.json"


def golden() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return document


def derived_from(vector: dict[str, Any], canonical: dict[str, Any]) -> str:
    """The key of a golden call."""
    scope = {"forever": FOREVER, "run": RUN, "window": window(hours(24))}[vector["scope"]]
    return derive_key(
        tenant=vector["tenant"],
        tool=vector["tool"],
        recipe=Key(tuple(vector["key"]), version=vector["version"], scope=scope),
        arguments=canonical,
        run=vector["run"],
        repeat_of=vector["repeat_of"],
        secret=bytes.fromhex(vector["secret"]) if vector["secret"] is not None else None,
    )


# ── one call, one key ──

NOON = datetime(2026, 11, 29, 14, 5, 10, tzinfo=UTC)
SPELLINGS = st.fixed_dictionaries(
    {
        "to": st.sampled_from(
            [
                "dana@example.com",
                " Dana@example.com",
                "DANA@EXAMPLE.COM\n",
                "dana@Example.Com\u3000",
            ]
        ),
        "template": st.just("apology"),
        "order_id": st.just("O-1"),
        "note": st.sampled_from(["caf\u00e9", "cafe\u0301"]),
        "copies": st.sampled_from([5, 5.0, "5", " 5 "]),
        "labels": st.sampled_from([["a", "b"], ["b", "a"], ("b", "a", "b"), {"a", "b"}]),
        "at": st.sampled_from(
            [
                "2026-11-29T14:05:10Z",
                "2026-11-29 14:05:10.000000+00:00",
                "2026-11-29T16:05:10+02:00",
                NOON,
                NOON.astimezone(timezone(timedelta(hours=-5, minutes=-30))),
            ]
        ),
    }
)


@given(SPELLINGS, st.permutations(list(CALL)))
def test_every_spelling_and_order_of_a_call_is_one_call(spelling, order):
    """S2.5: Four spellings of one call are four calls elsewhere."""
    received = {name: spelling[name] for name in order}
    assert key_of(received) == key_of(CALL)
    assert validate(MAIL, received).canonical == validate(MAIL, CALL).canonical


def test_a_default_spelt_out_is_the_default():
    short: dict[str, Any] = {"to": "dana@example.com", "template": "apology", "order_id": "O-1"}
    full: dict[str, Any] = short | {"note": None, "copies": 1, "labels": [], "at": None}
    assert key_of(short) == key_of(full)


OURS = [str(Path(takeback.__file__).parents[1]), str(Path(__file__).parents[2])]

SAY_KEYS = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from tests.model.sample import CALL, key_of
spelt = dict(reversed(CALL.items()), to=" DANA@EXAMPLE.COM", copies=5.0, labels={"b", "a"})
print(key_of(CALL), key_of(spelt))
"""


def said_elsewhere(python: str, **environment: str) -> list[str]:
    """The keys of one call and another spelling of it, as another process derives them."""
    done = subprocess.run(
        [python, "-c", SAY_KEYS, json.dumps(OURS)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and "Error" in done.stderr and python != sys.executable:
        pytest.skip(f"this Python can't load the library: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "tr_TR.UTF-8", "de_DE.UTF-8", "ja_JP.EUC-JP"])
@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_locale_and_the_order_of_hashes_do_not_change_a_key(locale, seed):
    """spliit-cloud #68: the canonical form depended on the locale."""
    said = said_elsewhere(sys.executable, LC_ALL=locale, LANG=locale, PYTHONHASHSEED=seed)
    assert said == [key_of(CALL)] * 2


def other_pythons() -> list[str]:
    versions = Path.home() / ".pyenv" / "versions"
    return sorted(str(path) for path in versions.glob("3.1[1-9]*/bin/python"))


@pytest.mark.parametrize("python", other_pythons() or [pytest.param("", marks=pytest.mark.skip)])
def test_another_version_of_python_derives_the_same_key(python):
    """spliit-cloud #68."""
    assert said_elsewhere(python) == [key_of(CALL)] * 2


@pytest.mark.parametrize("scope", ["forever", "run", "window"])
def test_no_time_is_in_a_key(scope):
    """S2.5: flexprice #2488: a timestamp inside the key made a retry one second later another call.

    The vectors were derived on another day, so an equal key has no time in it.
    """
    held = [vector for vector in golden()["calls"] if vector["scope"] == scope]
    assert held
    for vector in held:
        assert derived_from(vector, vector["canonical"]) == vector["derived"]


def test_the_length_of_a_window_is_not_in_the_key():
    short, long = (Key(("a",), scope=window(hours(count))) for count in (1, 24))
    assert key({"a": 1}, recipe=short) == key({"a": 1}, recipe=long)


def test_a_key_minted_by_the_model_is_refused_as_unknown():
    """S2.4: square-mcp-server #31: a tool's text told the model to mint a fresh key per request."""
    with pytest.raises(InvalidArguments) as caught:
        key_of(CALL | {"idempotency_key": "fresh"})
    assert [each.code for each in caught.value.violations] == ["unknown_argument"]


# ── two calls, two keys ──

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
VALUE = st.recursive(
    TEXT | st.integers(-(2**53) + 1, 2**53 - 1) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
SUBSET = st.dictionaries(st.sampled_from("abcd"), VALUE, max_size=4)


@given(SUBSET, SUBSET)
def test_no_two_subsets_share_a_key(one, other):
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (key(one) == key(other)) == same


def test_a_separator_within_a_value_is_no_separator():
    """Keys of joined strings take ("a|b", "c") for ("a", "b|c")."""
    pairs = [("a|b", "c"), ("a", "b|c"), ("a|b|c", ""), ("", "a|b|c"), ('a","b', "c")]
    assert len({key({"one": one, "other": other}) for one, other in pairs}) == len(pairs)


def test_types_are_told_apart():
    values: list[Any] = [None, True, 1, "1", "true", "null", [], [1], {}, 0, False, ""]
    assert len({key({"a": value}) for value in values}) == len(values)


BASE: dict[str, Any] = {"tenant": "t", "tool": "x", "run": None, "repeat_of": None}


@pytest.mark.parametrize(
    "change",
    [
        {"tenant": "u"},
        {"tool": "y"},
        {"repeat_of": "x-7F3K9QDM"},
        {"recipe": Key(("a",), version=2)},
        {"recipe": Key(("a", "b"))},
        {"recipe": Key(("b",))},
        {"recipe": Key(("a",), scope=window(hours(1)))},
        {"recipe": Key(("a",), scope=RUN), "run": "r"},
        {"recipe": Key(("a",), scope=RUN), "run": "forever"},
        {"secret": b"secret"},
        {"secret": b""},
        {"secret": b"other"},
    ],
    ids=str,
)
def test_whatever_makes_another_call_makes_another_key(change):
    """S2.6: saleor/apps #2446: of two equal partial refunds the second says repeat_of."""
    arguments = {"a": 1, "b": 1}
    plain = key(arguments, "a", **BASE)
    assert key(arguments, "a", **BASE | change) != plain
    assert key(arguments, "a", **BASE | change) == key(arguments, "a", **BASE | change)


def test_meaning_it_twice_chains():
    """S2.6: saleor/apps #2446: each of two equal refunds stays retryable."""
    first = key({"charge": "ch_1"})
    second = key({"charge": "ch_1"}, repeat_of="x-7F3K9QDM")
    third = key({"charge": "ch_1"}, repeat_of="x-00000000")
    assert len({first, second, third}) == 3


def test_arguments_outside_the_key_are_not_in_it():
    """S2.4."""
    one, other = {"a": 1, "note": "x"}, {"a": 1, "note": "y"}
    assert key(one, "a") == key(other, "a")


def test_a_run_matters_only_in_the_scope_of_a_run():
    assert key({"a": 1}, run="r1") == key({"a": 1}, run="r2") == key({"a": 1}, run=None)
    recipe = Key(("a",), scope=RUN)
    assert key({"a": 1}, recipe=recipe, run="r1") != key({"a": 1}, recipe=recipe, run="r2")


@pytest.mark.parametrize("run", [None, ""])
def test_a_call_recorded_once_per_run_must_name_one(run):
    with pytest.raises(CallerError, match=r"'x' is recorded once per run.*pass run="):
        key({"a": 1}, recipe=Key(("a",), scope=RUN), run=run)


def test_a_recipe_that_names_no_argument_is_refused_by_name():
    """keeperhub #2207: a write tool that forgot its key."""
    with pytest.raises(InvalidCatalog, match="'x': key field 'b' is no argument"):
        key({"a": 1}, "b")


def test_an_hmac_cannot_be_guessed_from_the_plain_key():
    plain, keyed = key({"a": 1}), key({"a": 1}, secret=b"s" * 32)
    assert plain.startswith("k1:")
    assert keyed.startswith("k1h:")
    assert plain[3:] != keyed[4:]
    assert len(plain[3:]) == len(keyed[4:]) == 64


# ── the bytes ──

CANONICAL = st.recursive(
    st.text()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.booleans()
    | st.none()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@given(CANONICAL)
def test_the_short_way_gives_the_bytes_of_the_standard(value):
    try:
        expected = rfc8785.dumps(value)
    except (ValueError, UnicodeEncodeError):
        with pytest.raises(ValueError, match=r"."):
            canonical_bytes(value)
    else:
        assert canonical_bytes(value) == expected


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 2**53, -(2**53), b"x", {1: 1}, {None: 1}, object(), {1}]
)
def test_what_json_cannot_say_has_no_bytes(value):
    for within in (value, [value], {"a": value}):
        with pytest.raises((ValueError, TypeError)):
            canonical_bytes(within)


@pytest.mark.parametrize("vector", golden()["calls"], ids=lambda vector: vector["about"])
def test_the_bytes_of_a_call_are_fixed_for_ever(vector):
    """S2.5: A changed vector makes every recorded call repeatable: open a new key version."""
    tool = row(vector["tool"])
    canonical = validate(tool, vector["received"]).canonical
    assert canonical == vector["canonical"]
    derived = derived_from(vector, canonical)
    assert derived == vector["derived"]
    if vector["secret"] is None:
        assert derived == f"k1:{hashlib.sha256(vector['document'].encode()).hexdigest()}"


@pytest.mark.parametrize("vector", golden()["values"], ids=lambda vector: vector["about"])
def test_the_bytes_of_a_value_are_fixed_for_ever(vector):
    assert canonical_bytes(vector["value"]).decode() == vector["text"]
