"""Every door has the same lean bytes about one version of an intent, and a full answer too."""

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from takeback import Affected, Door, Envelope, Found, Performed
from takeback.client.batching import Call
from takeback.ledger.reading import Entry
from tests.client.caller import CALLERS
from tests.client.desk import Desk

LETTER = {"to": "dana", "subject": "hello"}
OF_A_REPEAT = {"replayed", "first_called_at", "again", "differs", "differs_count", "stands"}
UUID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


def once(answer: Envelope) -> str:
    """The bytes of an answer but for what it says of being a repeat."""
    kept = {name: value for name, value in answer.items() if name not in OF_A_REPEAT}
    return Envelope(kept).to_json()


def doors(desk: Desk, tool: str, arguments: dict[str, Any], ref: str) -> dict[str, Envelope]:
    """The answer about one call at every door of the library."""
    answers = {
        "own": desk.app.call(None, tool, arguments),
        "call_many": desk.app.call_many(None, [Call(tool=tool, arguments=arguments)])[0],
        "status": desk.app.status(ref),
        "show": desk.app.show(ref).envelope,
    }
    for name, make in CALLERS.items():
        caller = make(desk.url)
        answers[name] = caller.call(desk.app, tool, arguments)
        answers[f"{name}_many"] = caller.call_many(
            desk.app, [Call(tool=tool, arguments=arguments)]
        )[0]
        caller.rollback()
        caller.close()
    return answers


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "held": ("send_letter", LETTER),
    "local": ("delete_book", {"book": "b1"}),
    "waiting": ("refund", {"charge": "ch_2", "amount": 90_000, "currency": "EUR"}),
    "due": ("refund", {"charge": "ch_1", "amount": 900, "currency": "EUR"}),
    "refused": ("act", {"case": "no"}),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_every_door_has_the_same_bytes_while_the_version_is_the_same(desk, name):
    """S3.3, S2.8: first call, repeat on each connection, batch, status and show."""
    tool, arguments = CALLS[name]
    desk.case("no", rejecting)
    first = desk.app.call(None, tool, arguments)
    answers = doors(desk, tool, arguments, first.ref or "")
    assert {place: once(answer) for place, answer in answers.items()} == dict.fromkeys(
        answers, once(first)
    )
    not_repeats = {first.to_json(), answers["status"].to_json(), answers["show"].to_json()}
    repeats = {a.to_json() for place, a in answers.items() if place not in ("status", "show")}
    assert (len(not_repeats), len(repeats)) == (1, 1)


def rejecting(*_: Any) -> None:
    from takeback import Rejected

    raise Rejected("over the ceiling", alternatives=[{"amount": 5}])


def test_after_every_change_of_an_intent_all_doors_agree_anew(desk):
    """S3.3: at each version that a letter passes through."""
    first = desk.app.call(None, "send_letter", LETTER)
    ref = first.ref or ""
    seen = [once(first)]
    desk.app.restore(None, ref)
    answers = doors(desk, "send_letter", LETTER, ref)
    assert len({once(answer) for answer in answers.values()}) == 1
    seen.append(once(answers["status"]))
    assert len(set(seen)) == 2


def test_a_restore_has_the_same_bytes_at_every_door(desk):
    """S3.3."""
    first = desk.app.call(None, "delete_book", {"book": "b1"})
    restored = desk.app.restore(None, first.ref)
    again = desk.app.restore(None, first.ref)
    as_tool = desk.app.call(None, "restore", {"ref": first.ref})
    status = desk.app.status(restored.ref)
    assert {once(one) for one in (again, as_tool, status)} == {once(restored)}
    assert restored.to_json() == status.to_json()


def test_any_arguments_are_told_alike_before_and_after_they_were_stored(desk, rng):
    """S2.8: a sentence about a number or an object says the same in a repeat."""
    for _ in range(40):
        note = json.dumps(some(rng, 3))
        arguments = {"to": "dana", "subject": f"s{rng.random()}", "note": note}
        first = desk.app.call(None, "send_letter", arguments)
        assert once(desk.app.call(None, "send_letter", arguments)) == once(first)


def some(rng: random.Random, depth: int) -> Any:
    leaves: list[Callable[[], Any]] = [
        lambda: rng.randrange(10**6) / 10,
        lambda: float(rng.randrange(10**6)),
        lambda: rng.choice(["ä", "x" * 300, "", "\U0001f4ee"]),
        lambda: None,
    ]
    if depth and rng.random() < 0.5:
        return {rng.choice("zyxab"): some(rng, depth - 1) for _ in range(3)}
    return rng.choice(leaves)()


def test_nothing_in_a_lean_answer_depends_on_the_moment_of_asking(desk):
    first = desk.app.call(None, "send_letter", LETTER)
    before = desk.app.status(first.ref).to_json()
    desk.shift(desk.value("SELECT interval '59 seconds'"))
    assert desk.app.status(first.ref).to_json() == before


@pytest.mark.parametrize("name", list(CALLS))
def test_no_lean_answer_has_an_id_that_only_machines_read(desk, name):
    """S0.5: no raw UUID in a lean payload."""
    tool, arguments = CALLS[name]
    desk.case("no", rejecting)
    first = desk.app.call(None, tool, arguments)
    id_ = str(desk.value("SELECT id FROM takeback.intents WHERE ref = %s", first.ref))
    for answer in (first, desk.app.status(first.ref), desk.app.restore(None, first.ref)):
        assert UUID.search(answer.to_json()) is None
        assert id_ not in answer.to_json()


def test_ids_of_the_world_that_only_machines_read_are_told_by_their_ends(desk):
    """S0.5."""
    raw = "01890a5d-ac96-774b-bcce-b302099a8057"
    desk.case("x", lambda *_: Performed(affected=[Affected(kind="row", id=raw)], summary=f"{raw}."))
    answer = desk.app.call(None, "act", {"case": "x"})
    assert answer.affected[0]["id"] == "…099a8057"
    assert answer.summary == "…099a8057."
    full = answer.full.disclose(Door.INTERFACE)
    assert full["affected"][0]["id"] == raw


# ── sizes ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tool", ["act", "deliver"])
def test_a_result_of_282_kb_is_told_in_600_bytes(desk, tool):
    """S3.7: 282 KB of result: at most 0.6 KB, and the whole of it behind the ref (S3.9)."""
    rows = [{"id": n, "text": "x" * 900} for n in range(300)]
    affected = [Affected(kind="row", id=str(n)) for n in range(300)]
    assert 275_000 < len(json.dumps(rows)) < 300_000
    desk.case("big", lambda *_: Performed(result=rows, affected=affected, summary="All moved."))
    first = desk.app.call(None, tool, {"case": "big"})
    desk.work()
    answer = desk.app.status(first.ref)
    assert answer.status == "done"
    assert len(answer.to_json()) <= 564
    assert answer["affected_count"] == 300
    full = desk.app.show(first.ref).envelope.full.disclose(Door.CLI_SHOW_FULL)
    assert full["bodies"]["result"]["result"] == rows
    assert len(full["affected"]) == 300


def test_ten_times_the_rows_and_arguments_make_an_answer_no_longer(desk):
    """S3.7."""
    sizes = []
    for size in (1_000, 10_000):
        rows = [Affected(kind="k" * size, id="i" * size, label="l" * size)] * size
        desk.case(
            f"{size}",
            lambda *_, rows=rows, size=size: Performed(
                result="r" * size, affected=rows[:50], affected_count=size,
                summary="s" * size, leaves=["v" * size] * size,
            ),
        )  # fmt: skip
        answer = desk.app.call(None, "act", {"case": f"{size}", "note": "n" * size})
        sizes.append(len(answer.to_json()))
    assert sizes[1] - sizes[0] <= 10
    assert max(sizes) < 4_000


def test_kinds_are_counted_when_there_are_several(desk):
    answer = desk.app.call(None, "delete_book", {"book": "b1"})
    assert answer["affected_by_kind"] == {"loan": 2, "book": 1}
    assert "affected_by_kind" not in desk.app.call(None, "delete_book", {"book": "b3"})


def test_kinds_of_a_selection_are_counted_by_whoever_knows(desk):
    some = [Affected(kind="a", id="1"), Affected(kind="b", id="2")]
    desk.case("unsaid", lambda *_: Performed(affected=some, affected_count=900))
    desk.case(
        "said",
        lambda *_: Performed(
            affected=some, affected_count=900, affected_by_kind={"b": 800, "a": 100}
        ),
    )
    assert "affected_by_kind" not in desk.app.call(None, "act", {"case": "unsaid"})
    answer = desk.app.call(None, "act", {"case": "said"})
    assert answer["affected_by_kind"] == {"b": 800, "a": 100}
    assert once(desk.app.call(None, "act", {"case": "said"})) == once(answer)


# ── results ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tool", ["act", "deliver"])
def test_a_result_that_cannot_be_stored_loses_nothing_else(desk, tool):
    """A result that the encoder can't take still settles, and lean says that it isn't stored."""
    desk.case(
        "odd",
        lambda *_: Performed(
            result={1j},
            affected=[Affected(kind="row", id="7")],
            summary="Seven is done.",
            leaves=["a trace"],
        ),
    )
    first = desk.app.call(None, tool, {"case": "odd"})
    desk.work()
    answer = desk.app.call(None, tool, {"case": "odd"})
    assert (answer.status, answer["result_stored"]) == ("done", False)
    assert (answer.summary, answer.affected[0]["id"]) == ("Seven is done.", "7")
    assert answer.restore is not None
    assert answer.restore["leaves"] == ["a trace"]
    assert desk.app.restore(None, first.ref).status in ("done", "scheduled")


@pytest.mark.parametrize("result", [None, 0, "", [], {}, False], ids=repr)
def test_results_that_are_nothing_much_are_kept_and_replayed_as_they_are(desk, result):
    """powertools-python #4759: a zero or an empty text was taken for no result."""
    desk.case("x", lambda *_: Performed(result=result))
    answers = [desk.app.call(None, "act", {"case": "x"}) for _ in range(2)]
    assert desk.plays["x"].performed == 1
    for answer in answers:
        kept = answer.full.disclose(Door.INTERFACE)["bodies"]["result"]["result"]
        assert (kept, type(kept)) == (result, type(result))
        assert "result_stored" not in answer


def test_the_full_answer_is_the_same_at_first_and_by_ref(desk):
    """S3.9: reachable by ref, so deleting lean loses nothing."""
    first = desk.app.call(None, "delete_book", {"book": "b1"})
    by_ref = desk.app.show(first.ref).envelope
    assert first.full.disclose(Door.INTERFACE) == by_ref.full.disclose(Door.INTERFACE)
    stored: Entry = desk.app.show(first.ref).entry
    assert first.full.disclose(Door.INTERFACE)["bodies"] == stored.bodies


def test_an_intent_as_it_is_shown_cannot_be_serialised_whole(desk):
    """S3.4."""
    import dataclasses
    import pickle

    first = desk.app.call(None, "delete_book", {"book": "b1"})
    shown = desk.app.show(first.ref)
    assert "Emma" not in repr(shown)
    assert "Emma" not in json.dumps(shown, default=repr)
    for way in (pickle.dumps, dataclasses.asdict, vars, dict):
        with pytest.raises(TypeError):
            way(shown)


# ── reads ────────────────────────────────────────────────────────────────────────────────────────


def test_a_read_keeps_its_rows_in_the_process_and_records_nothing(desk):
    """S3.1: both payloads are made in one pass."""
    rows = [{"id": n, "text": "x" * 900} for n in range(300)]
    desk.case("many", lambda *_: Found(matches=rows, result="csv"))
    answer = desk.app.call(None, "look", {"case": "many"})
    assert len(answer.to_json()) <= 564
    assert len(answer["matches"]) == 3
    full = answer.full.disclose(Door.INTERFACE)
    assert (full["matches"], full["result"]) == (rows, "csv")
    assert desk.is_empty()
    assert desk.plays["many"].performed == 1


def test_equal_reads_of_equal_state_have_equal_answers(desk):
    """S0.17."""
    first = desk.app.call(None, "find_books", {"query": "u"})
    for _ in range(5):
        again = desk.app.call(None, "find_books", {"query": "u"})
        assert again.to_dict() | {"trace_id": 0} == first.to_dict() | {"trace_id": 0}


def test_a_result_of_a_read_that_json_cannot_hold_is_left_out_of_the_full_answer(desk):
    desk.case("odd", lambda *_: Found(matches=[{"id": 1}], result={(1, 2): 3}))
    answer = desk.app.call(None, "look", {"case": "odd"})
    assert answer.status == "ok"
    assert answer.full.disclose(Door.INTERFACE)["result"] is None
