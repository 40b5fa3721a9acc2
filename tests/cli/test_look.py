"""``list``, ``show`` and ``events``, to people and to programs."""

import json
import re

import psycopg
import pytest

from takeback.cli.main import run
from tests.cli.terminal import Terminal, call, environment, running

LINE = {
    "ref",
    "tool",
    "status",
    "state",
    "run",
    "principal",
    "recorded_at",
    "due_at",
    "summary",
}


def test_a_list_is_an_array_of_the_promised_lines_newest_first(kiosk: Terminal):
    first = kiosk.ref(*call("post", to="dana"))
    second = kiosk.ref(*call("paint", wall="north", colour="green"))
    said = kiosk("list", "--json")
    assert said.exit == 0
    assert [one["ref"] for one in said.document] == [second, first]
    assert all(one.keys() == LINE for one in said.document)


def test_a_list_is_narrowed_by_state_tool_run_age_and_number(kiosk: Terminal):
    held = kiosk.ref(*call("post", "--run", "run-1", to="dana"))
    done = kiosk.ref(*call("paint", wall="north", colour="green"))

    def refs(*options: str) -> list[str]:
        return [one["ref"] for one in kiosk("list", *options, "--json").document]

    assert refs("--state", "held") == [held]
    assert refs("--state", "HELD") == [held]
    assert refs("--tool", "paint") == [done]
    assert refs("--run", "run-1") == [held]
    assert refs("--since", "2h") == [done, held]
    assert refs("--since", "0s") == []
    assert refs("--limit", "1") == [done]
    assert refs("--state", "in_doubt") == []


def test_people_get_a_table_in_which_every_ref_is_whole(kiosk: Terminal):
    refs = [kiosk.ref(*call("post", to=to)) for to in ("dana", "olu")]
    said = kiosk("list")
    assert said.exit == 0
    lines = said.out.splitlines()
    assert lines[0].split() == ["REF", "STATE", "RECORDED", "DUE", "SUMMARY"]
    assert {line.split()[0] for line in lines[1:]} == set(refs)
    assert len(lines) == 3
    assert all(line == line.rstrip() for line in lines)
    assert said.out.isascii()


def test_people_are_told_when_nothing_matches(kiosk: Terminal):
    said = kiosk("list", "--tool", "nothing")
    assert (said.exit, said.out) == (0, "no intent matches\n")


@pytest.mark.parametrize("span", ["2", "h", "2y", "-2h", "2.5h", "999999999w", "", "2h\n3h"])
def test_a_span_that_is_none_is_a_usage_error_with_examples(kiosk: Terminal, span: str):
    said = kiosk("list", "--since", span, "--json")
    assert (said.exit, said.code) == (2, "usage")
    if span != "999999999w":
        assert "30m, 2h or 7d" in said.document["error"]["message"]


def test_an_unknown_state_is_answered_with_all_of_them_and_the_nearest(kiosk: Terminal):
    said = kiosk("list", "--state", "executng")
    assert said.exit == 2
    assert "awaiting_approval" in said.err
    assert "the nearest is executing" in said.err
    assert "the nearest is in_doubt" in kiosk("list", "--state", "doubt").err


def test_a_status_for_a_state_is_answered_with_the_states_that_it_means(kiosk: Terminal):
    said = kiosk("list", "--state", "scheduled")
    assert said.exit == 2
    assert "recorded, waiting, held, due, claimed" in said.err


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "many", "1e3"])
def test_a_limit_out_of_bounds_is_a_usage_error(kiosk: Terminal, limit: str):
    assert kiosk("list", f"--limit={limit}", "--json").code == "usage"
    said = kiosk("list", f"--limit={limit}").err
    assert f"--limit is '{limit}'; expected a whole number from 1 to 1000" in said


@pytest.mark.parametrize("spelt", [str, lambda ref: f" {ref.lower()} "], ids=["as_is", "lower"])
def test_a_ref_from_an_answer_is_pasted_as_it_is_or_as_people_spell_it(kiosk: Terminal, spelt):
    """S0.5: a person pastes what a model was told, and both mean the same intent."""
    ref = kiosk.ref(*call("post", to="dana"))
    assert re.fullmatch(r"post-[0-9A-HJKMNP-TV-Z]{8}", ref)
    assert kiosk("show", spelt(ref), "--json").document["ref"] == ref
    taken_back = kiosk("restore", spelt(ref), "--json")
    assert taken_back.exit == 0
    assert taken_back.document["affected_count"] == 1
    assert kiosk("show", ref, "--json").document["status"] == "taken_back"


def test_show_has_state_events_affected_and_restore(kiosk: Terminal):
    ref = kiosk.ref(*call("paint", wall="north", colour="green"))
    said = kiosk("show", ref, "--json")
    shown = said.document
    assert said.exit == 0
    assert (shown["status"], shown["state"]) == ("done", "succeeded")
    assert [one["kind"] for one in shown["events"]] == ["intent.recorded", "intent.succeeded"]
    assert shown["affected"][0]["id"] == "north"
    assert shown["restore"]["arguments"] == {"ref": ref}
    assert "bodies" not in shown


def test_show_in_full_adds_arguments_and_result(kiosk: Terminal):
    ref = kiosk.ref(*call("paint", wall="north", colour="green"))
    bodies = kiosk("show", ref, "--full", "--json").document["bodies"]
    assert bodies["arguments"] == {"colour": "green", "wall": "north"}
    assert bodies["result"]["result"] == {"former": "white"}
    assert '"wall": "north"' in kiosk("show", ref, "--full").out
    assert '"wall": "north"' not in kiosk("show", ref).out


def test_an_operator_sees_what_broke_under_a_trace_id(kiosk: Terminal):
    """S2.18: the model has the trace id, the operator the traceback."""
    told = kiosk(*call("jam", words="now"), "--json")
    assert (told.exit, told.document["error"]["code"]) == (1, "internal_error")
    trace_id = told.document["trace_id"]
    assert "jammed" not in told.out
    fault = kiosk("show", trace_id, "--json").document
    assert (fault["trace_id"], fault["tool"]) == (trace_id, "jam")
    assert (fault["kind"], fault["effect"]) == ("builtins.ZeroDivisionError", "none")
    assert "the drawer is jammed" in fault["details"]
    said = kiosk("show", trace_id)
    assert said.exit == 0
    assert "builtins.ZeroDivisionError" in said.out
    assert said.out.rstrip().endswith("ZeroDivisionError: the drawer is jammed")


def test_a_trace_id_under_which_nothing_is_kept_ends_with_three(kiosk: Terminal):
    assert kiosk("show", "0123456789abcdef").exit == 3


def test_people_see_the_timeline_of_one_intent(kiosk: Terminal):
    ref = kiosk.ref(*call("post", to="dana"))
    kiosk("restore", ref)
    said = kiosk("show", ref)
    assert said.exit == 0
    assert said.out.splitlines()[0] == f"taken_back  {ref}"
    assert [line.split()[2] for line in said.out.splitlines()[-2:]] == ["recorded", "cancelled"]


def test_a_ref_is_pasted_as_people_paste(kiosk: Terminal):
    ref = kiosk.ref(*call("post", to="dana"))
    tool, _, code = ref.rpartition("-")
    assert kiosk("show", f"  {tool}-{code.lower()} ", "--json").document["ref"] == ref


@pytest.mark.parametrize("ref", ["post-00000000", "x", "", "-" * 9, "post-" + "7" * 5000, "прост"])
def test_what_is_no_ref_is_said_to_be_none(kiosk: Terminal, ref: str):
    said = kiosk("--json", "show", "--", ref)
    assert (said.exit, said.code) == (3, "no_such_ref")


def test_lists_and_pages_without_an_app_say_nothing_of_taking_back(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    ref = kiosk.ref(*call("paint", wall="north", colour="green"))
    monkeypatch.delenv("TAKEBACK_APP")
    assert [one["ref"] for one in kiosk("list", "--json").document] == [ref]
    shown = kiosk("show", ref, "--json").document
    assert shown["restore"] is None
    assert "no app is named" in shown["no_restore"]
    assert [one["state"] for one in kiosk("list", "--json").document] == ["succeeded"]


def test_the_log_is_a_line_of_json_for_each_event_in_order(kiosk: Terminal):
    refs = [kiosk.ref(*call("post", to=to)) for to in ("dana", "olu")]
    said = kiosk("events")
    assert said.exit == 0
    events = [json.loads(line) for line in said.out.splitlines()]
    assert [one["ref"] for one in events] == refs
    positions = [one["position"] for one in events]
    assert positions == sorted(positions)
    assert events[0].keys() == {
        "position",
        "ref",
        "tenant",
        "intent_id",
        "version",
        "kind",
        "at",
        "payload",
    }


def test_the_log_as_one_document_says_where_to_go_on(kiosk: Terminal):
    refs = [kiosk.ref(*call("post", to=to)) for to in ("a", "b", "c")]
    first = kiosk("events", "--limit", "2", "--json").document
    rest = kiosk("--json", "events", "--after", str(first["safe_position"])).document
    assert [one["ref"] for one in first["events"] + rest["events"]] == refs
    assert rest["held_back_by"] == []
    end = kiosk("--json", "events", "--after", str(rest["safe_position"]))
    assert (end.exit, end.document["events"]) == (0, [])


def test_every_event_has_its_ref_and_not_only_the_first(kiosk: Terminal):
    ref = kiosk.ref(*call("paint", wall="north", colour="green"))
    assert [one["ref"] for one in kiosk("events", "--json").document["events"]] == [ref, ref]


@pytest.mark.parametrize("after", ["-1", "x", str(2**63), "1.5"])
def test_a_position_that_is_none_is_a_usage_error(kiosk: Terminal, after: str):
    assert kiosk("events", f"--after={after}", "--json").exit == 2


def test_following_has_no_end_so_it_is_no_document(kiosk: Terminal):
    said = kiosk("events", "--follow", "--json")
    assert (said.exit, said.code) == (2, "usage")


def test_an_open_transaction_holds_the_log_back_and_is_named(kiosk: Terminal, database_url: str):
    kiosk.ref(*call("post", to="dana"))
    with psycopg.connect(database_url) as connection:
        connection.execute("SELECT pg_advisory_xact_lock_shared(31418, 1)")
        pid = connection.info.backend_pid
        held = kiosk("events", "--json").document
        assert (held["events"], held["held_back_by"]) == ([], [pid])
        people = kiosk("events")
        assert people.out == ""
        assert f"held back by database process {pid}" in people.err
    assert len(kiosk("events", "--json").document["events"]) == 1


def test_following_prints_what_comes_until_it_is_interrupted(kiosk: Terminal):
    import signal

    first = kiosk.ref(*call("post", to="dana"))
    with running("events", "--follow") as follower:
        assert json.loads(follower.line())["ref"] == first
        second = kiosk.ref(*call("post", to="olu"))
        assert json.loads(follower.line())["ref"] == second
        follower.tell(signal.SIGINT)
        ended = follower.ended()
    assert ended.exit == 130
    assert "Traceback" not in ended.err


def test_following_ends_when_nobody_reads_any_more(kiosk: Terminal):
    kiosk.ref(*call("post", to="dana"))
    with running("events", "--follow") as follower:
        follower.line()
        assert follower.child.stdout is not None
        follower.child.stdout.close()
        assert follower.child.wait(timeout=30) == 141
        assert follower.child.stderr is not None
        assert follower.child.stderr.read() == b""


def test_following_goes_on_after_the_database_was_away(kiosk: Terminal, database_url: str):
    kiosk.ref(*call("post", to="dana"))
    with running("events", "--follow") as follower:
        follower.line()
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'takeback' AND datname = current_database()"
            )
        follower.error_line("waiting for it")
        second = kiosk.ref(*call("post", to="olu"))
        assert json.loads(follower.line())["ref"] == second


def test_following_stops_after_a_limit(kiosk: Terminal):
    for to in ("a", "b", "c"):
        kiosk.ref(*call("post", to=to))
    said = kiosk("events", "--follow", "--limit", "2")
    assert (said.exit, len(said.out.splitlines())) == (0, 2)


def test_a_narrow_terminal_gets_the_summary_below_and_whole_refs(kiosk: Terminal):
    import os
    import pty
    import subprocess

    from tests.cli.terminal import FOLDER, PROGRAM

    ref = kiosk.ref(*call("post", to="dana"))
    mine, theirs = pty.openpty()
    child = subprocess.Popen(
        [*PROGRAM, "list"],
        cwd=FOLDER,
        env=environment(COLUMNS="80", TERM="xterm"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    while chunk := _read(mine):
        said += chunk
    child.wait(timeout=30)
    os.close(mine)
    lines = said.decode().splitlines()
    assert lines[1].startswith(ref)
    assert lines[2].startswith("    Note to dana leaves at")
    assert all(len(line) <= 80 for line in lines)


def _read(terminal: int) -> bytes:
    """What comes next; nothing when the other end is closed, which Linux calls an error."""
    import os

    try:
        return os.read(terminal, 1000)
    except OSError:
        return b""


def test_run_can_be_called_again_in_one_process(kiosk: Terminal):
    assert [run(["list", "--json"]) for _ in range(2)] == [0, 0]


def test_of_a_refusal_that_is_not_kept_it_is_said_where_it_is_logged(kiosk: Terminal):
    refused = kiosk(*call("nothing"), "--json").document
    said = kiosk("show", refused["trace_id"])
    assert said.exit == 3
    assert f"no fault is kept under the trace id {refused['trace_id']}" in said.err
    assert "TAKEBACK_LOG=json" in said.err and "takeback show REF" in said.err
    assert kiosk("show", refused["trace_id"], "--json").code == "no_such_ref"
