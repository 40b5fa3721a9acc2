"""What a person reads of calls in doubt, resolved, amended, waiting: why, since when, what next."""

import re

import pytest

from tests.cli.terminal import Terminal, call


@pytest.fixture
def ref(kiosk: Terminal) -> str:
    """A bell of which nobody knows whether it has rung."""
    rung = kiosk.ref(*call("ring", bell="north", how="badly"))
    assert kiosk("worker", "--drain").exit == 0
    return rung


def test_what_ended_an_attempt_is_told_by_show_and_not_only_in_the_log(kiosk, ref):
    told = kiosk("show", ref, "--json").document
    (attempt,) = told["attempts"]
    assert (attempt["attempt"], attempt["became"], attempt["cause"]) == (1, "in_doubt", "exception")
    assert attempt["began_at"] <= attempt["ended_at"] == told["doubt"]["since"]
    error = attempt["error"]
    assert (error["class"], error["message"]) == ("builtins.RuntimeError", "the clapper fell out")

    shown = kiosk("show", ref).out
    assert re.search(
        r"^  attempt 1 +20\S+ to 20\S+: in_doubt: its attempt ended in an", shown, re.MULTILINE
    )
    assert "RuntimeError: the clapper fell out" in shown
    (pasted,) = re.findall(r"^ +takeback show (\S+)$", shown, re.MULTILINE)
    fault = kiosk("show", pasted, "--json").document
    assert fault["trace_id"] == pasted == error["trace_id"]
    assert "Traceback" in fault["details"] and fault["effect"] == "unknown"
    assert "clapper" not in kiosk("call", "ring", "--args", '{"bell":"north","how":"badly"}').out
    assert kiosk("doctor", "--json").document["faults_last_day"] == 0, "no request broke"


def test_what_was_resolved_reads_as_decided_and_has_a_next_step(kiosk, ref):
    said = kiosk("resolve", ref, "--as", "failed", "--principal", "dana")
    assert said.exit == 0 and said.err == ""
    assert said.out.startswith(f"resolved: it did not happen  {ref}\n")
    assert "ring did not happen, as dana has found out." in said.out
    assert re.search(r"^  decided +did not happen: dana at 20", said.out, re.MULTILINE)
    assert f"takeback retry {ref}" in said.out and f"--repeat-of {ref}" in said.out
    assert "resolved_failed" not in said.out, "it is no refusal"
    assert kiosk("show", ref, "--json").code == "resolved_failed"


@pytest.mark.parametrize("word", ["succeeded", "failed", "unknown"])
def test_programs_read_whether_the_verb_was_done_apart_from_the_status_of_the_call(
    kiosk, ref, word
):
    """What did not happen is a refused call, and to have said so is no refusal."""
    said = kiosk("resolve", ref, "--as", word, "--json")
    assert (said.exit, said.document["is_decided"]) == (0, True)
    assert kiosk("resolve", ref, "--as", word).out.startswith("resolved: ")
    waits = kiosk.ref(*call("give", "--principal", "agent:till", amount=500))
    wrong = kiosk("resolve", waits, "--as", word, "--json")
    assert (wrong.exit, wrong.document["is_decided"]) == (1, False)
    denied = kiosk("deny", waits, "--principal", "dana", "--json")
    assert (denied.exit, denied.document["is_decided"]) == (0, True)
    assert kiosk("deny", waits, "--principal", "dana").out.startswith("denied: it never happens  ")


def test_when_it_was_said_is_told_apart_from_when_it_was_tried(kiosk, ref):
    kiosk("resolve", ref, "--as", "succeeded", "--principal", "dana")
    told = kiosk("show", ref, "--json").document
    assert told["verdict"] == {
        "says": "succeeded",
        "source": "person",
        "by": "dana",
        "at": told["settled_at"],
    }
    assert told["attempts"][0]["ended_at"] <= told["verdict"]["at"]
    assert told["attempts"][0]["became"] == "in_doubt"
    assert re.search(r"^  succeeded +dana said so at 20", kiosk("show", ref).out, re.MULTILINE)


def test_nobody_knows_is_said_and_what_is_tried_again_is_stopped_by_the_command_that_is_shown(
    kiosk, ref
):
    said = kiosk("resolve", ref, "--as", "unknown", "--principal", "dana")
    assert said.exit == 0 and re.search(r"decided +nobody knows: dana at", said.out)
    assert f"takeback show {ref}" in said.out
    shown = kiosk("show", ref).out
    assert re.search(r"parked +by dana at 20", shown)
    assert "  state        parked: it waits for a person\n" in shown

    again = kiosk("retry", ref)
    assert "may or may not have happened, and is tried again" in again.out
    assert "unless taken back" not in again.out
    (pasted,) = re.findall(r"^  stop it +takeback (resolve .+)$", again.out, re.MULTILINE)
    assert pasted in kiosk("show", ref).out
    refused = kiosk("restore", ref)
    assert refused.exit == 1 and f"takeback resolve {ref} --as unknown" in refused.err
    assert kiosk(*pasted.split()).exit == 0
    assert kiosk("show", ref, "--json").document["state"] == "parked"


def test_a_refusal_has_the_command_that_comes_next(kiosk, ref):
    refused = kiosk("retry", ref)
    assert refused.exit == 1
    steps = re.findall(r"^  (?:there is)? +takeback (resolve .+)$", refused.err, re.MULTILINE)
    assert steps == [f"resolve {ref} --as {word}" for word in ("unknown", "succeeded", "failed")]
    twice = kiosk(*call("ring", "--repeat-of", ref, bell="north", how="badly"))
    assert twice.exit == 1 and "first_in_doubt" in twice.err
    assert f"takeback resolve {ref} --as" in twice.err and "{" not in twice.err


def test_both_ends_of_an_amendment_name_the_other(kiosk):
    first = kiosk.ref(*call("post", to="dana"))
    said = kiosk("amend", first, "--args", '{"text": "later"}')
    assert said.exit == 0, said.err
    (anew,) = re.findall(r"post-[0-9A-Z]{8}", said.out.splitlines()[0])
    assert re.search(rf"^  in place of +{first}$", said.out, re.MULTILINE)
    assert f"It stands in place of {first}." in said.out
    assert re.search(rf"^  stands as +{anew}$", kiosk("show", first).out, re.MULTILINE)
    for line in kiosk("list", "--json").document:
        assert (first if line["ref"] == anew else anew) in line["summary"] or line["tool"] != "post"
    again = kiosk("amend", first, "--args", '{"text": "never"}')
    assert again.exit == 1 and f"takeback amend {anew} --args" in again.err


def test_who_waited_in_vain_is_refused_and_the_timeline_names_the_other(kiosk):
    first = kiosk.ref(*call("post", to="dana"))
    second = kiosk.ref(*call("ring", "--after", first, bell="north"))
    kiosk("restore", first)
    assert kiosk("worker", "--drain").exit == 0

    told = kiosk("show", second, "--json").document
    assert (told["status"], told["error"]["code"]) == ("refused", "waited_in_vain")
    shown = kiosk("show", second).out
    (line,) = [one for one in shown.splitlines() if " wait_failed " in one]
    assert line.endswith(f"cause other_taken_back, other {first}")


def test_what_a_late_answer_denies_is_listed_with_what_is_in_doubt(kiosk, ref, database_url):
    import psycopg

    kiosk("resolve", ref, "--as", "failed")
    assert kiosk("list", "--state", "in_doubt", "--json").document == []
    with psycopg.connect(database_url) as tx:
        tx.execute("UPDATE takeback.intents SET contradicted = true")
    for state in ("in_doubt", "failed"):
        (line,) = kiosk("list", "--state", state, "--json").document
        assert (line["ref"], line["status"], line["state"]) == (ref, "in_doubt", "failed")
