"""``preview``, to people and to programs."""

import pytest

from tests.cli.terminal import Terminal, call


def preview(tool: str, **arguments: object) -> list[str]:
    return ["preview", *call(tool, **arguments)[1:]]


def test_a_preview_answers_programs_with_what_would_be_affected_and_what_to_expect(
    kiosk: Terminal,
):
    """S2.21: the affected set is there before anything has happened."""
    said = kiosk("--json", *preview("paint", wall="north", colour="green"))
    assert said.exit == 0 and said.err == ""
    assert said.document["would"] == "done"
    assert said.document["affected"] == [{"kind": "wall", "id": "north", "label": "the north wall"}]
    assert kiosk("--json", "list").document == []
    expect = said.document["expect"]
    done = kiosk("--json", *call("paint", wall="north", colour="green"), "--expect", expect)
    assert (done.exit, done.document["status"]) == (0, "done")


def test_a_preview_tells_people_how_to_hold_the_call_to_it(kiosk: Terminal):
    said = kiosk(*preview("paint", wall="north", colour="green"))
    assert said.exit == 0
    (line,) = [line for line in said.out.splitlines() if "--expect" in line]
    expect = line.split("--expect ")[1].strip()
    assert "the north wall" in said.out and "Nothing is done yet" in said.out
    other = kiosk(*call("paint", wall="north", colour="blue"), "--expect", expect)
    assert other.exit == 1 and "colour" in other.err
    assert kiosk(*call("paint", wall="north", colour="green"), "--expect", expect).exit == 0


@pytest.mark.parametrize(
    "wrong, code",
    [
        (preview("paint", wall="north"), 1),
        (preview("paint", wall="attic", colour="green"), 1),
        (preview("nothing"), 1),
        (["preview", "paint", "--args", "{"], 2),
        (["preview"], 2),
    ],
    ids=["missing", "no_such_wall", "no_such_tool", "no_json", "no_tool"],
)
def test_what_can_not_be_previewed_ends_as_the_call_would(
    kiosk: Terminal, wrong: list[str], code: int
):
    said = kiosk("--json", *wrong)
    assert said.exit == code
    assert said.document["error"]["code"]


def test_an_equal_call_that_was_made_is_said_with_its_ref(kiosk: Terminal):
    done = kiosk("--json", *call("paint", wall="north", colour="green"))
    said = kiosk(*preview("paint", wall="north", colour="green"))
    assert said.exit == 0 and done.document["ref"] in said.out
