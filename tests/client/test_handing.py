"""Each door logs the bytes of both payloads, when somebody wants to hear of it."""

import logging

import pytest

from takeback.client.batching import Call
from takeback.client.handing import hand_over, hand_over_full
from takeback.model.door import Door

LETTER = {"to": "dana", "subject": "hello", "note": "n" * 5000}


@pytest.fixture
def heard(caplog):
    caplog.set_level(logging.DEBUG, logger="takeback.answers")

    def lines(door: Door) -> list[dict]:
        events = [record.msg for record in caplog.records if record.name == "takeback.answers"]
        return [one for one in events if isinstance(one, dict) and one["door"] == door.value]

    return lines


def test_each_door_has_one_line_with_the_bytes_at_the_door(desk, heard):
    """S3.5: lean and full, measured where the answer leaves."""
    first = desk.app.call(None, "send_letter", LETTER)
    (line,) = heard(Door.CALL)
    assert line["lean_bytes"] == len(first.to_json().encode())
    assert line["full_bytes"] > 5000
    assert (line["ref"], line["status"]) == (first.ref, "scheduled")
    desk.app.call_many(None, [Call(tool="send_letter", arguments=LETTER)] * 3)
    assert len(heard(Door.CALL_MANY)) == 3
    assert all(line["replayed"] for line in heard(Door.CALL_MANY))
    desk.app.status(first.ref)
    desk.app.show(first.ref)
    desk.app.list()
    desk.app.restore(None, first.ref)
    for door in (Door.STATUS, Door.SHOW, Door.LIST, Door.RESTORE):
        assert len(heard(door)) == 1, door


def test_a_refusal_has_a_line_too(desk, heard):
    desk.app.call(None, "no_such_tool", {})
    assert [(line["status"], line["code"]) for line in heard(Door.CALL)] == [
        ("refused", "unknown_tool")
    ]


def test_nobody_is_told_and_nothing_is_measured_unasked(desk, caplog, monkeypatch):
    caplog.set_level(logging.INFO, logger="takeback.answers")
    answer = desk.app.call(None, "send_letter", LETTER)
    assert [record for record in caplog.records if record.name == "takeback.answers"] == []
    full_type = type(answer.full)
    monkeypatch.setattr(full_type, "byte_count", lambda _: pytest.fail("measured"))
    hand_over(answer, Door.CALL)


@pytest.mark.parametrize("none", ["call", None, "mcp"])
def test_nothing_leaves_at_what_is_no_door(desk, none):
    """S3.4: no registry at a door, and it fails closed."""
    answer = desk.app.call(None, "send_letter", LETTER)
    with pytest.raises(TypeError, match="is no door"):
        hand_over(answer, none)
    with pytest.raises(TypeError, match="is no door"):
        hand_over_full(answer, none)
    with pytest.raises(TypeError, match="lean answers only"):
        hand_over_full(answer, Door.CALL)
