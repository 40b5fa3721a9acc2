"""``retry`` and ``resolve``, and what ``show`` tells the person who is to find out."""

import re

import pytest

from tests.cli.terminal import Terminal, call


@pytest.fixture
def ref(kiosk: Terminal) -> str:
    """A bell of which nobody knows whether it has rung."""
    rung = kiosk.ref(*call("ring", bell="north", how="badly"))
    assert kiosk("worker", "--drain").exit == 0
    assert kiosk("show", rung, "--json").document["state"] == "in_doubt"
    return rung


def test_show_says_why_it_is_in_doubt_and_has_the_commands_ready(kiosk, ref):
    shown = kiosk("show", ref).out
    assert re.search(r"because +its attempt ended in an exception", shown)
    assert re.search(r"since +20\d\d-", shown)
    pasted = re.findall(r"^  did not +takeback (resolve .+)$", shown, re.MULTILINE)
    assert pasted == [f"resolve {ref} --as failed --note '...'"]
    assert re.search(rf"^  happened +takeback resolve {ref} --as succeeded", shown, re.MULTILINE)
    assert "try again" not in shown, "it is still being found out"


def test_programs_read_what_can_be_done(kiosk, ref):
    told = kiosk("show", ref, "--json").document
    assert (told["can"], told["doubt"]["cause"]) == (["resolve"], "exception")
    assert (told["doubt"]["attempt"], told["doubt"]["restore"]) == (1, None)
    held = kiosk("show", kiosk.ref(*call("post", to="dana")), "--json").document
    assert (held["can"], held["doubt"]) == ([], None)


def test_what_a_person_says_is_so_and_exits_with_zero(kiosk, ref):
    said = kiosk("resolve", ref, "--as", "failed", "--note", "I was there", "--json")
    assert (said.exit, said.document["status"], said.code) == (0, "refused", "resolved_failed")
    assert kiosk("resolve", ref, "--as", "failed").exit == 0, "twice is once"
    assert kiosk("show", ref, "--json").document["can"] == ["retry"]
    assert "I was there" in kiosk("show", ref, "--full").out

    again = kiosk("retry", ref, "--principal", "dana", "--json")
    assert (again.exit, again.document["status"]) == (0, "scheduled")
    assert again.document["decided"]["by"] == "dana"


def test_the_opposite_is_refused_and_names_who_was_first(kiosk, ref):
    kiosk("resolve", ref, "--as", "succeeded", "--principal", "dana")
    late = kiosk("resolve", ref, "--as", "failed", "--principal", "robin")
    assert late.exit == 1 and "wrong_state: dana said that it has happened" in late.err


def test_what_can_not_be_meant_is_no_usage(kiosk, ref):
    for line in (["resolve", ref], ["resolve", ref, "--as", "done"], ["retry"]):
        assert kiosk(*line).exit == 2
    assert kiosk("retry", "ring-00000000").exit == 3
    assert kiosk("resolve", ref, "--as", "failed", "--principal", "agent:till").exit == 1


def test_what_still_waits_for_approval_is_answered_so(kiosk):
    waits = kiosk.ref(*call("give", "--principal", "agent:till", amount=500))
    for line in (["retry", waits], ["resolve", waits, "--as", "failed"]):
        refused = kiosk(*line, "--principal", "dana", "--json")
        assert (refused.exit, refused.code) == (1, "needs_approval")


def test_a_doubt_that_a_deploy_would_strand_is_listed(kiosk, ref, database_url):
    import psycopg

    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE takeback.intents SET tool_version = 0")
    said = kiosk("doctor", "--json")
    assert said.exit == 1
    (stranded,) = said.document["stranded"]
    assert (stranded["tool"], stranded["state"]) == ("ring", "in_doubt")


def test_of_what_may_have_happened_trying_again_is_told_last_and_with_a_warning(kiosk, monkeypatch):
    monkeypatch.setenv("TAKEBACK_LEASE_SECONDS", "2.5")
    rung = kiosk.ref(*call("ring", bell="north", how="badly"))
    for _ in range(50):
        assert kiosk("worker", "--drain").exit == 0
        if kiosk("show", rung, "--json").document["state"] == "parked":
            break
    assert kiosk("show", rung, "--json").document["can"] == ["resolve", "retry"]
    shown = kiosk("show", rung).out
    warned = rf"^  try again +takeback retry {rung}\n +it may happen a second time$"
    assert re.search(warned, shown, re.MULTILINE)
    assert shown.index("  happened ") < shown.index("  try again ")


def test_a_retry_of_what_was_taken_back_since_is_not_done(kiosk: Terminal):
    never = kiosk.ref(*call("ring", bell="north", how="never"))
    kiosk("worker", "--drain")
    kiosk("freeze", "--tool", "ring", "--reason", "x", "--principal", "dana")
    assert kiosk("retry", never, "--principal", "dana").exit == 0
    assert kiosk("retry", never, "--principal", "dana").exit == 0, "twice is once"
    assert kiosk("restore", never).exit == 0
    said = kiosk("retry", never, "--principal", "dana", "--json")
    assert (said.exit, said.document["status"]) == (1, "taken_back")
