"""Whatever was written once can be read for ever, and nothing is stored that could not be.

tests/model/golden/events.jsonl has a line for every kind and schema that was ever written. Lines
are added and never changed: each is an event in somebody's database.
"""

import json
from contextlib import suppress
from dataclasses import FrozenInstanceError, asdict, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from takeback.model import command as commands
from takeback.model import event as events
from takeback.model.errors import LedgerCorrupt
from takeback.model.event import EVENTS, decode, encode
from takeback.model.evolve import evolve
from takeback.model.upcasting import UPCASTERS, Upcaster, upcast
from tests.model.history import SITUATIONS, facts, situation

GOLDEN = Path(__file__).parent / "golden" / "events.jsonl"
LINES: list[dict[str, Any]] = [json.loads(line) for line in GOLDEN.read_text().splitlines()]

IN_NO_LANE = {"lane": "", "priority": 0, "ordering": None}
UNASKED = dict.fromkeys(("on_behalf_of", "approval_cause", "approval_us", "affected"))
ADDED: dict[tuple[str, int], dict[str, Any]] = {
    ("intent.recorded", 1): UNASKED | IN_NO_LANE,
    ("intent.recorded", 2): IN_NO_LANE,
    ("intent.parked", 1): {"by": None},
    ("intent.approved", 1): {"saw": None},
}
"""What an event of an earlier schema has today beyond what it was written with."""

KINDS = {
    "intent.recorded": 3,
    "intent.window_moved": 1,
    "intent.approval_asked": 1,
    "intent.approved": 2,
    "intent.denied": 1,
    "intent.approval_expired": 1,
    "intent.awoken": 1,
    "intent.wait_failed": 1,
    "intent.postponed": 1,
    "intent.due": 1,
    "intent.claimed": 1,
    "intent.handed_back": 1,
    "intent.attempt_began": 1,
    "intent.succeeded": 1,
    "intent.failed": 1,
    "intent.deferred": 1,
    "intent.in_doubt": 1,
    "intent.parked": 2,
    "intent.requeued": 1,
    "intent.answered_late": 1,
    "intent.contradicted": 1,
    "intent.cancelled": 1,
    "intent.restore_began": 1,
    "intent.restored": 1,
    "intent.restore_failed": 1,
    "intent.restore_in_doubt": 1,
    "intent.purged": 1,
}
"""The stored names, each with its present schema. A name that was stored once stays here."""

TEXT_FIELDS = {
    "Recorded.ref": "identifier, made by us",
    "Recorded.tool": "identifier, from the catalog",
    "Recorded.key": "digest of chosen arguments",
    "Recorded.run": "identifier, the caller's",
    "Recorded.principal": "identifier of who acts",
    "Recorded.arguments": "digest of a salted body",
    "Recorded.restores": "identifier, a UUID",
    "Recorded.repeat_of": "identifier, a ref",
    "Recorded.after": "identifiers, refs",
    "Recorded.on_behalf_of": "identifier of who it is done for",
    "Recorded.approval_cause": "closed word: command.ApprovalCause",
    "Recorded.affected": "digest of a salted body",
    "Recorded.lane": "identifier, a connector of the catalog",
    "Recorded.ordering": "digest of a chosen argument",
    "ApprovalAsked.cause": "closed word: command.ApprovalCause",
    "Approved.by": "identifier of who decided",
    "Approved.saw": "digest of what was looked at",
    "Denied.by": "identifier of who decided",
    "Denied.reason": "digest of a salted body",
    "WaitFailed.cause": "closed word: command.WaitCause",
    "WaitFailed.waited_for": "digest of a salted body",
    "Postponed.cause": "closed word: command.PostponeCause",
    "Claimed.worker": "identifier of a process",
    "HandedBack.cause": "closed word: given_up, lease_over",
    "Succeeded.result": "digest of a salted body",
    "Succeeded.by": "identifier of who decided",
    "Failed.code": "closed word: the codes of the error tree",
    "Failed.error": "digest of a salted body",
    "Failed.by": "identifier of who decided",
    "Deferred.cause": "closed word: command.DeferCause",
    "InDoubt.cause": "closed word: command.DoubtCause, lease_over",
    "Parked.cause": "closed word: command.ParkCause",
    "Parked.by": "identifier of who decided",
    "Requeued.by": "identifier of who decided",
    "AnsweredLate.body": "digest of a salted body",
    "Cancelled.by": "identifier of who took it back",
    "Cancelled.via": "identifier, a ref",
    "RestoreBegan.by": "identifier of who took it back",
    "RestoreBegan.via": "identifier, a ref",
    "Restored.via": "identifier, a ref",
    "RestoreFailed.via": "identifier, a ref",
    "RestoreInDoubt.via": "identifier, a ref",
}
"""Every field that can hold text, and why none of it is anybody's prose."""


def line_of(line: dict[str, Any]) -> str:
    return f"{line['kind']}-{line['schema']}"


# The golden log.


@pytest.mark.parametrize("line", LINES, ids=line_of)
def test_an_event_ever_written_is_read_as_it_was_meant(line):
    """What later schemas added to it says that nothing is known, and changes nothing else."""
    read = decode(line["kind"], line["schema"], line["payload"])
    later = ADDED.get((line["kind"], line["schema"]), {})
    added = "".join(f", {name}={value!r}" for name, value in later.items())
    assert repr(read) == line["decoded"].removesuffix(")") + added + ")"


@pytest.mark.parametrize("line", LINES, ids=line_of)
def test_an_event_of_today_is_written_to_the_byte_as_it_was(line):
    event = decode(line["kind"], line["schema"], line["payload"])
    if line["schema"] == event.schema:
        assert encode(event) == line["payload"]


PLAIN = next(n["payload"] for n in LINES if (n["kind"], n["schema"]) == ("intent.recorded", 2))


@pytest.mark.parametrize("said", [{"lane": "cable"}, {"priority": 1}, {"ordering": "a" * 64}])
def test_a_call_is_written_in_the_schema_of_the_release_before_unless_it_says_more(said):
    plain = decode("intent.recorded", 2, PLAIN)
    assert plain.schema == 2 and encode(plain) == PLAIN
    more = replace(plain, **said)
    assert more.schema == 3 and json.loads(encode(more)) == json.loads(PLAIN) | IN_NO_LANE | said
    assert decode("intent.recorded", 3, encode(more)) == more


def test_every_kind_at_its_present_schema_has_a_golden_line():
    written = {(line["kind"], line["schema"]) for line in LINES}
    assert {(kind.KIND, kind.SCHEMA) for kind in EVENTS} <= written


def test_every_schema_before_the_present_one_has_a_golden_line_and_an_upcaster():
    written = {(line["kind"], line["schema"]) for line in LINES}
    former = {(kind.KIND, schema) for kind in EVENTS for schema in range(1, kind.SCHEMA)}
    assert former <= written
    assert former == UPCASTERS.keys()


def test_every_nullable_field_is_written_both_ways():
    seen: dict[str, set[bool]] = {}
    for line in LINES:
        event = decode(line["kind"], line["schema"], line["payload"])
        for name, hint in get_type_hints(type(event)).items():
            if type(None) in get_args(hint):
                where = f"{type(event).__name__}.{name}"
                seen.setdefault(where, set()).add(getattr(event, name) is None)
    assert {where for where, ways in seen.items() if len(ways) == 1} == set()


def test_every_word_of_a_closed_set_is_written():
    sample = [decode(line["kind"], line["schema"], line["payload"]) for line in LINES]
    for kind in EVENTS:
        for name, hint in get_type_hints(kind).items():
            if get_origin(hint) is Literal:
                written = {getattr(event, name) for event in sample if type(event) is kind}
                assert written == set(get_args(hint)), f"{kind.__name__}.{name}"


# Names and types.


def test_the_stored_names_and_schemas_are_pinned():
    assert {kind.KIND: kind.SCHEMA for kind in EVENTS} == KINDS


def test_every_kind_of_event_is_in_the_list():
    declared = {kind for kind in vars(events).values() if isinstance(kind, type)}
    assert {kind for kind in declared if issubclass(kind, events.Event)} == {events.Event, *EVENTS}
    assert len({kind.KIND for kind in EVENTS}) == len(EVENTS)


def test_no_event_has_room_for_free_text():
    found = set()
    for kind in EVENTS:
        hints = get_type_hints(kind)
        for field in fields(kind):
            if "str" in str(hints[field.name]).replace("typing.Literal", ""):
                found.add(f"{kind.__name__}.{field.name}")
    assert found == TEXT_FIELDS.keys()


@pytest.mark.parametrize(
    ("field", "words"), [(f, w.removeprefix("closed word: ")) for f, w in TEXT_FIELDS.items()]
)
def test_a_word_that_is_stored_as_text_is_one_of_a_set_that_commands_can_not_leave(field, words):
    """An open word can be read from a later release; only a closed one can be written."""
    if not words.startswith("command."):
        return
    name = words.split(",")[0].removeprefix("command.")
    closed = getattr(commands, name)
    assert get_origin(closed) is Literal
    asking = {
        kind.__name__
        for kind in get_args(commands.Command)
        if closed in get_type_hints(kind).values()
    }
    assert asking, f"{field}: no command is asked with a {name}"


def test_every_other_field_is_a_number_or_a_word_of_a_closed_set():
    for kind in EVENTS:
        for name, hint in get_type_hints(kind).items():
            if f"{kind.__name__}.{name}" in TEXT_FIELDS or name in ("KIND", "SCHEMA"):
                continue
            options = set(get_args(hint)) - {type(None)} or {hint}
            assert get_origin(hint) is Literal or options == {int}, f"{kind.__name__}.{name}"


def test_instants_and_spans_are_named_for_their_unit():
    for kind in EVENTS:
        for field in fields(kind):
            assert not field.name.endswith(("_at", "_seconds", "until", "window")), field.name


def test_an_event_cannot_be_changed():
    event = events.Denied(by="dana", reason=None)
    with pytest.raises(FrozenInstanceError):
        event.by = "mo"  # type: ignore[misc]


# Encoding.


@pytest.mark.parametrize("name", SITUATIONS)
def test_whatever_is_encoded_is_decoded_to_the_same(name):
    for event in SITUATIONS[name]:
        assert decode(event.KIND, event.schema, encode(event)) == event


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("zoë", r'{"by":"zo\u00eb","reason":null}'),
        ("日本", r'{"by":"\u65e5\u672c","reason":null}'),
        ("🙂", r'{"by":"\ud83d\ude42","reason":null}'),
        ('"\\/\n', r'{"by":"\"\\/\n","reason":null}'),
        ("\x00", r'{"by":"\u0000","reason":null}'),
        ("\ud800", r'{"by":"\ud800","reason":null}'),
        ("", '{"by":"","reason":null}'),
    ],
)
def test_text_is_encoded_to_bytes_that_every_database_and_terminal_holds(by, expected):
    event = events.Denied(by=by, reason=None)
    assert encode(event) == expected
    assert decode("intent.denied", 1, expected) == event


@forall(st.text())
def test_the_same_event_always_gives_the_same_ascii(by):
    payload = encode(events.Denied(by=by, reason=None))
    assert payload.isascii()
    assert encode(decode("intent.denied", 1, payload)) == payload


# Upcasting.


CHAIN: dict[tuple[str, int], Upcaster] = {
    ("intent.denied", 1): lambda old: {"by": old["who"].lower(), "why": old["why"]},
    ("intent.denied", 2): lambda old: {"by": old["by"], "reason": old["why"] or None},
}


@pytest.mark.parametrize(
    ("schema", "fields"),
    [
        (1, {"who": "Dana", "why": ""}),
        (2, {"by": "dana", "why": ""}),
        (3, {"by": "dana", "reason": None}),
    ],
)
def test_an_old_payload_is_brought_up_one_schema_at_a_time(schema, fields):
    present = upcast(fields, ("intent.denied", schema), 3, CHAIN)
    assert events.Denied(**present) == events.Denied(by="dana", reason=None)


@pytest.mark.parametrize("kind", ["intent.recorded", "intent.approved"])
def test_a_field_of_a_later_schema_makes_an_old_payload_corrupt(kind):
    line = next(n["payload"] for n in LINES if (n["kind"], n["schema"]) == (kind, 1))
    for name in ADDED[kind, 1]:
        for value in (None, "dana"):
            with pytest.raises(LedgerCorrupt):
                decode(kind, 1, json.dumps(json.loads(line) | {name: value}))


def test_a_payload_of_today_goes_through_no_upcaster():
    seen: list[Any] = []
    decode("intent.due", 1, "{}", {("intent.due", 1): seen.append})  # type: ignore[dict-item]
    assert seen == []


def test_a_missing_upcaster_means_that_the_log_cannot_be_read():
    with pytest.raises(LedgerCorrupt, match=r"'intent.denied' schema 1 can't be brought to 4"):
        upcast({"who": "Dana", "why": ""}, ("intent.denied", 1), 4, CHAIN)


@pytest.mark.parametrize("fields", [[], 3, None, "text", {}, {"other": 1}, {"who": 3}])
def test_an_upcaster_that_is_given_nonsense_does_not_break_the_reader(fields):
    with pytest.raises(LedgerCorrupt):
        upcast(fields, ("intent.denied", 1), 3, CHAIN)


# What can't be read.


def test_an_unknown_kind_or_schema_is_named():
    with pytest.raises(LedgerCorrupt, match=r"found 'intent.vanished' schema 1"):
        decode("intent.vanished", 1, "{}")
    for schema in (-1, 0, 2):
        with pytest.raises(LedgerCorrupt, match=f"found 'intent.due' schema {schema}"):
            decode("intent.due", schema, "{}")


DAMAGED = [
    pytest.param("", id="nothing"),
    pytest.param("{", id="cut"),
    pytest.param('{"by":"dana"}', id="a field is missing"),
    pytest.param('{"by":"dana","reason":null,"extra":1}', id="a field too many"),
    pytest.param('{"by":"dana","by":"mo","reason":null}', id="a field twice"),
    pytest.param('{"by":null,"reason":null}', id="null where something is"),
    pytest.param('{"by":7,"reason":null}', id="a number for a name"),
    pytest.param('{"by":"dana","reason":["x"]}', id="a list for a digest"),
    pytest.param('{"by":"dana","reason":null} {}', id="something behind it"),
    pytest.param('["by","reason"]', id="a list"),
    pytest.param("null", id="null"),
    pytest.param("NaN", id="no number"),
    pytest.param("[" * 100_000, id="deeper than the stack"),
    pytest.param("9" * 5_000, id="longer than a number can be"),
]


@pytest.mark.parametrize("payload", DAMAGED)
def test_a_damaged_payload_means_that_the_log_is_corrupt(payload):
    with pytest.raises(LedgerCorrupt, match=r"'intent.denied' schema 1 can't be read"):
        decode("intent.denied", 1, payload)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("intent.window_moved", '{"until_us":true}'),
        ("intent.window_moved", '{"until_us":1.0}'),
        ("intent.window_moved", '{"until_us":"1"}'),
        ("intent.window_moved", '{"until_us":null}'),
        ("intent.window_moved", '{"until_us":NaN}'),
        ("intent.window_moved", '{"until_us":9223372036854775808}'),
        ("intent.window_moved", '{"until_us":-9223372036854775809}'),
        ("intent.awoken", '{"becomes":"executing"}'),
        ("intent.awoken", '{"becomes":["due"]}'),
        ("intent.awoken", '{"becomes":null}'),
        ("intent.approved", '{"becomes":"succeeded","by":"dana"}'),
        ("intent.approval_asked", '{"approval_us":"1","cause":"limit"}'),
        ("intent.approval_asked", '{"approval_us":1,"cause":null}'),
        ("intent.postponed", '{"cause":"thawed","until_us":null}'),
        ("intent.answered_late", '{"attempt":1,"body":null,"outcome":"maybe"}'),
        ("intent.contradicted", '{"answered":"failed","attempt":1,"decided":"maybe"}'),
        (
            "intent.requeued",
            '{"begin_before_us":null,"by":null,"cause":"so","epoch":0,"until_us":0}',
        ),
    ],
)
def test_a_value_of_another_type_or_set_means_that_the_log_is_corrupt(kind, payload):
    with pytest.raises(LedgerCorrupt):
        decode(kind, 1, payload)


@pytest.mark.parametrize("after", ['"ab"', "[1]", '[["a"]]', "[null]", "null", "{}"])
def test_refs_are_a_list_of_text(after):
    line = next(n["payload"] for n in LINES if n["kind"] == "intent.recorded")
    assert '"after":[]' in line
    with pytest.raises(LedgerCorrupt):
        decode("intent.recorded", 1, line.replace('"after":[]', f'"after":{after}'))


def test_a_cause_of_the_next_release_can_be_read():
    assert decode("intent.in_doubt", 1, '{"attempt":1,"cause":"comet"}') == events.InDoubt(
        attempt=1, cause="comet"
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@forall(
    kind=st.sampled_from([*KINDS, "intent.vanished", ""]),
    schema=st.integers(-1, 3),
    payload=st.text(max_size=40) | JSON.map(json.dumps),
)
def test_whatever_the_bytes_reading_gives_an_event_or_says_corrupt(kind, schema, payload):
    try:
        event = decode(kind, schema, payload)
    except LedgerCorrupt:
        return
    assert decode(kind, event.schema, encode(event)) == event


@forall(line=st.sampled_from(LINES), data=st.data())
def test_a_payload_with_one_field_replaced_gives_an_event_or_says_corrupt(line, data):
    payload = json.loads(line["payload"])
    name = data.draw(st.sampled_from([*payload, "extra", "saw", "affected"]))
    payload[name] = data.draw(JSON)
    try:
        event = decode(line["kind"], line["schema"], json.dumps(payload))
    except LedgerCorrupt:
        return
    added = ADDED.get((line["kind"], line["schema"]), {})
    assert json.loads(json.dumps(asdict(event))) == payload | added


@forall(line=st.sampled_from(LINES), data=st.data())
def test_a_payload_with_one_character_changed_gives_an_event_or_says_corrupt(line, data):
    text = line["payload"]
    place = data.draw(st.integers(0, len(text)))
    piece = data.draw(st.text(max_size=2))
    kept = data.draw(st.integers(0, 2))
    with suppress(LedgerCorrupt):
        decode(line["kind"], line["schema"], text[:place] + piece + text[place + kept :])


@forall(
    name=st.sampled_from(list(SITUATIONS)),
    line=st.sampled_from(LINES),
    data=st.data(),
)
def test_folding_what_was_read_gives_an_intent_or_says_corrupt(name, line, data):
    payload = json.loads(line["payload"])
    for field, value in payload.items():
        if type(value) is int:
            payload[field] = data.draw(st.just(value) | st.integers(-(2**63), 2**63 - 1))
    event = decode(line["kind"], line["schema"], json.dumps(payload))
    with suppress(LedgerCorrupt):
        evolve(situation(name), facts(*SITUATIONS[name], event)[-1])
