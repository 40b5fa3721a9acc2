"""``call`` and ``restore``, to people and to programs."""

import json
from pathlib import Path

import psycopg
import pytest

from tests.cli.terminal import Terminal, call

ENVELOPE = {"status", "ref", "summary", "affected", "affected_count", "restore", "replayed"}


def test_a_call_answers_programs_with_the_lean_envelope(kiosk: Terminal):
    said = kiosk("--json", *call("paint", wall="north", colour="green"))
    assert said.exit == 0
    assert said.document.keys() >= ENVELOPE
    assert said.document["status"] == "done"
    assert said.err == ""


def test_a_call_tells_people_how_to_take_it_back_in_a_line_to_be_pasted(kiosk: Terminal):
    said = kiosk(*call("paint", wall="north", colour="green"))
    assert said.exit == 0
    ref = said.out.splitlines()[0].split()[1]
    assert f"takeback restore {ref}" in said.out
    assert "the north wall" in said.out
    (line,) = [line for line in said.out.splitlines() if "takeback restore" in line]
    pasted = line.split("takeback ")[1].split()
    assert kiosk(*pasted).exit == 0


def test_the_line_to_be_pasted_names_the_app_when_it_was_named(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("TAKEBACK_APP")
    said = kiosk("--app", "kiosk:app", *call("paint", wall="north", colour="green"))
    assert "takeback --app kiosk:app restore paint-" in said.out


def test_a_held_call_is_scheduled_and_exits_with_zero(kiosk: Terminal):
    said = kiosk(*call("post", to="dana"), "--json")
    assert (said.exit, said.document["status"]) == (0, "scheduled")


def test_a_call_over_a_limit_is_recorded_and_exits_with_zero(kiosk: Terminal):
    said = kiosk(*call("give", amount=500), "--json")
    assert (said.exit, said.document["status"]) == (0, "needs_approval")
    assert kiosk("show", said.document["ref"]).exit == 0


def test_a_second_equal_call_is_a_replay_and_says_how_to_mean_it_again(kiosk: Terminal):
    ref = kiosk.ref(*call("post", to="dana"))
    again = kiosk(*call("post", to="dana"))
    assert again.exit == 0
    assert f"--repeat-of {ref}" in again.out
    assert "an answer given before" in again.out
    once_more = kiosk(*call("post", "--repeat-of", ref, to="dana"), "--json")
    assert once_more.exit == 0
    assert once_more.document["ref"] != ref


def test_a_repeat_with_other_arguments_shows_both_values(kiosk: Terminal):
    kiosk.ref(*call("post", to="dana", text="hello"))
    said = kiosk(*call("post", to="dana", text="good day"))
    assert said.exit == 0
    assert "hello" in said.out
    assert "good day" in said.out


def test_an_unknown_tool_is_refused_with_the_envelope(kiosk: Terminal):
    said = kiosk(*call("pain", wall="north", colour="green"), "--json")
    assert (said.exit, said.code) == (1, "unknown_tool")
    assert "'paint'" in said.document["error"]["message"]
    people = kiosk(*call("pain", wall="north", colour="green"))
    assert people.exit == 1
    assert people.out == ""
    assert "did you mean 'paint'" in people.err


def test_every_wrong_argument_is_said_at_once_with_the_call_that_would_do(kiosk: Terminal):
    said = kiosk(*call("paint", wall="north", colour="GREEN"))
    assert said.exit == 1
    assert "white, green, blue" in said.err
    assert "received GREEN" in said.err
    (line,) = [line for line in said.err.splitlines() if "takeback call paint" in line]
    assert '"colour": "green"' in line
    assert kiosk(*call("paint", wall=1, colour="red"), "--json").code == "invalid_argument"


def test_a_reference_to_nothing_is_refused_with_what_there_is(kiosk: Terminal):
    said = kiosk(*call("paint", wall="east", colour="green"))
    assert said.exit == 1
    assert "there is no such wall" in said.err


def test_a_handler_that_breaks_is_one_line_and_a_trace_id(kiosk: Terminal):
    said = kiosk(*call("jam"))
    assert said.exit == 1
    assert "Traceback" not in said.err
    (cause,) = [line for line in said.err.splitlines() if "the drawer is jammed" in line]
    (trace,) = [line.split()[-1] for line in said.err.splitlines() if line.startswith("  trace")]
    assert trace in cause
    assert kiosk(*call("jam"), "--json").code == "internal_error"


def test_what_a_read_finds_is_listed(kiosk: Terminal):
    said = kiosk(*call("seek", words="north"))
    assert said.exit == 0
    assert "wall: north, colour: white" in said.out
    assert kiosk(*call("seek", words="nowhere"), "--json").document["status"] == "no_matches"


def test_a_stale_preview_is_refused(kiosk: Terminal):
    said = kiosk(*call("paint", "--expect", "p1:old", wall="north", colour="green"), "--json")
    assert (said.exit, said.code) == (1, "preview_stale")


def test_a_repeat_of_nothing_is_no_such_ref(kiosk: Terminal):
    said = kiosk(*call("post", "--repeat-of", "post-00000000", to="dana"), "--json")
    assert (said.exit, said.code) == (3, "no_such_ref")


def test_the_caller_is_the_user_of_the_system_and_of_no_run(kiosk: Terminal):
    import os
    import pwd

    ref = kiosk.ref(*call("post", to="dana"))
    shown = kiosk("show", ref, "--json").document
    assert shown["principal"] == pwd.getpwuid(os.getuid()).pw_name
    assert shown["run"] is None


def test_principal_and_run_are_recorded_as_they_are_said(kiosk: Terminal):
    ref = kiosk.ref(*call("post", "--principal", "agent:support", "--run", "run-42", to="dana"))
    shown = kiosk("show", ref, "--json").document
    assert (shown["principal"], shown["run"]) == ("agent:support", "run-42")


def test_an_empty_principal_is_a_usage_error_and_not_somebody_unknown(kiosk: Terminal):
    assert kiosk(*call("post", "--principal", "", to="dana"), "--json").exit == 2


def test_a_principal_of_two_words_is_refused_by_name(kiosk: Terminal):
    said = kiosk(*call("post", "--principal", "dana ruiz", to="dana"), "--json")
    assert (said.exit, said.document["error"]["violations"][0]["field"]) == (1, "principal")


def test_arguments_come_from_a_file_or_from_stdin(
    kiosk: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import io

    file = tmp_path / "arguments.json"
    file.write_text('\ufeff{"to": "dana", "text": "grüße"}')
    ref = kiosk.ref("call", "post", "--args", f"@{file}")
    assert kiosk("show", ref, "--full", "--json").document["bodies"]["arguments"]["text"] == "grüße"
    stdin = io.TextIOWrapper(io.BytesIO(b'{"to": "olu"}'), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", stdin)
    assert kiosk("call", "post", "--args", "-").exit == 0


def test_a_call_without_arguments_says_which_are_missing(kiosk: Terminal):
    said = kiosk("call", "paint")
    assert said.exit == 1
    assert "- wall: is required\n" in said.err
    assert "- colour: is required; permitted white, green, blue\n" in said.err


def test_a_restore_puts_things_back_and_twice_is_once(kiosk: Terminal, database_url: str):
    ref = kiosk.ref(*call("paint", wall="north", colour="green"))
    first = kiosk("restore", ref, "--json")
    second = kiosk("restore", ref, "--json")
    assert (first.exit, second.exit) == (0, 0)
    assert first.document["ref"] == second.document["ref"]
    assert second.document["replayed"]
    with psycopg.connect(database_url) as connection:
        row = connection.execute("SELECT colour FROM kiosk.walls WHERE id = 'north'").fetchone()
    assert row == ("white",)


def test_a_replayed_restore_offers_no_option_that_restore_has_not(kiosk: Terminal):
    ref = kiosk.ref(*call("post", to="dana"))
    kiosk("restore", ref)
    assert "--repeat-of" not in kiosk("restore", ref).out


def test_the_call_that_an_answer_hands_back_can_be_run_as_it_came(kiosk: Terminal):
    back = kiosk(*call("post", to="dana"), "--json").document["restore"]
    run = kiosk(*call(back["tool"], **back["arguments"]), "--json")
    assert (run.exit, run.document["status"]) == (0, "done")
    assert kiosk("show", back["arguments"]["ref"], "--json").document["status"] == "taken_back"


def test_restoring_nothing_is_no_such_ref_with_the_nearest(kiosk: Terminal):
    ref = kiosk.ref(*call("post", to="dana"))
    wrong = ref[:-1] + ("0" if ref[-1] != "0" else "1")
    said = kiosk("restore", wrong, "--json")
    assert (said.exit, said.code) == (3, "no_such_ref")
    assert said.document["error"]["alternatives"] == [ref]
    people = kiosk("restore", wrong)
    assert people.exit == 3
    assert "see `takeback list`" in people.err
    assert ref in people.err


def test_a_restore_over_somebody_elses_change_is_refused_until_a_person_forces_it(
    kiosk: Terminal, database_url: str
):
    ref = kiosk.ref(*call("paint", wall="north", colour="green"))
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE kiosk.walls SET colour = 'blue' WHERE id = 'north'")
    said = kiosk("restore", ref)
    assert said.exit == 1
    assert "restore_conflict" in said.err
    assert "blue" in said.err
    agent = kiosk("restore", ref, "--force", "--principal", "agent:support", "--json")
    assert (agent.exit, agent.code) == (1, "no_access")
    assert kiosk("restore", ref, "--force").exit == 0


def test_what_was_taken_back_is_shown_as_taken_back(kiosk: Terminal):
    ref = kiosk.ref(*call("post", to="dana"))
    kiosk("restore", ref)
    again = kiosk(*call("post", to="dana"), "--json")
    assert (again.exit, again.document["status"]) == (0, "taken_back")
    by, at = again.document["taken_back_by"], again.document["taken_back_at"]
    assert f"by {by} at {at}" in kiosk(*call("post", to="dana")).out


def test_text_of_a_model_moves_no_cursor(kiosk: Terminal):
    said = kiosk(*call("post", to="\x1b[2Jdana\u202e"))
    assert said.exit == 0
    assert "\x1b" not in said.out
    assert "\u202e" not in said.out
    assert "\\x1b[2Jdana" in said.out


def test_half_a_character_in_the_arguments_is_printed_as_json(kiosk: Terminal):
    said = kiosk("call", "paint", "--args", '{"wall": "\\ud800", "colour": "green"}', "--json")
    assert said.exit == 1
    json.loads(said.out.encode())


def test_a_repeat_that_comes_after_what_there_is_not_is_no_such_ref(kiosk: Terminal):
    first = kiosk.ref(*call("post", to="olu"))
    kiosk.ref(*call("post", "--after", first, to="dana"))
    again = kiosk(*call("post", "--after", first, to="dana"), "--json")
    assert (again.exit, again.document["replayed"]) == (0, True)
    for nonsense in ("nonsense", "post-00000000"):
        said = kiosk(*call("post", "--after", nonsense, to="dana"), "--json")
        assert (said.exit, said.code) == (3, "no_such_ref")
