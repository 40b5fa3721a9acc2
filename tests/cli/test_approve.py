"""``approve`` and ``deny``, and what ``show`` and ``list`` tell the person who is to decide."""

import re

import psycopg
import pytest

from tests.cli.terminal import Terminal, call


@pytest.fixture
def ref(kiosk: Terminal) -> str:
    """A gift that waits for a person."""
    return kiosk.ref(*call("give", "--principal", "agent:till", amount=500))


def test_what_waits_is_listed_and_shown_with_who_asks_what_for_and_until_when(kiosk, ref):
    (line,) = kiosk("list", "--state", "awaiting_approval", "--json").document
    assert line["ref"] == ref
    shown = kiosk("show", ref).out
    assert re.search(r"asked by +agent:till at 20", shown)
    assert re.search(r"because +its row wants a person for such a call", shown)
    assert re.search(r"asked of +a person other than agent:till", shown)
    assert re.search(r"until +20\d\d-", shown)


def test_show_prints_the_commands_that_decide_ready_to_be_pasted(kiosk, ref):
    shown = kiosk("show", ref).out
    (pasted,) = re.findall(r"^  approve +takeback (approve .+)$", shown, re.MULTILINE)
    assert re.search(rf"^  deny +takeback deny {ref} --reason '...'$", shown, re.MULTILINE)
    said = kiosk(*pasted.split())
    assert (said.exit, said.out.split()[0]) == (0, "scheduled")
    assert kiosk("show", ref, "--json").document["state"] == "held"


def test_programs_read_the_request_and_what_became_of_it(kiosk, ref):
    waits = kiosk("show", ref, "--json").document["approval"]
    assert (waits["state"], waits["cause"], waits["decided"]) == ("awaiting_approval", "row", None)
    assert waits["asked_by"] == "agent:till" and waits["expires_at"].endswith("Z")
    assert re.fullmatch(r"[0-9a-f]{16}", waits["expect"])
    approved = kiosk("approve", ref, "--expect", waits["expect"], "--principal", "dana", "--json")
    assert (approved.exit, approved.document["decided"]["by"]) == (0, "dana")
    after = kiosk("show", ref, "--json").document["approval"]
    assert (after["state"], after["decided"]["how"]) == ("approved", "approved")
    assert "approve" not in re.findall(r"^  (\w+) +takeback", kiosk("show", ref).out, re.MULTILINE)


def test_what_nobody_was_asked_about_has_no_request(kiosk):
    held = kiosk.ref(*call("post", to="dana"))
    assert kiosk("show", held, "--json").document["approval"] is None
    refused = kiosk("approve", held, "--principal", "dana", "--json")
    assert refused.code == "approval_mismatch"


def test_a_denial_that_is_made_exits_with_zero_and_its_reason_is_shown_to_people(kiosk, ref):
    said = kiosk("deny", ref, "--reason", "too generous", "--principal", "dana", "--json")
    assert (said.exit, said.document["status"], said.code) == (0, "refused", "approval_denied")
    assert "dana denied it" in kiosk("deny", ref, "--principal", "robin").out
    shown = kiosk("show", ref).out
    assert re.search(r"denied +by dana at 20", shown)
    assert re.search(r"because +too generous", shown)
    assert shown.splitlines()[-1].endswith("by dana")
    again = kiosk(*call("give", amount=500))
    assert again.exit == 1 and "too generous" not in again.err + again.out


def test_the_reason_is_asked_for_by_name_and_may_be_left_out(kiosk, ref):
    assert kiosk("deny", ref, "because").exit == 2
    assert kiosk("deny", ref).exit == 0


def test_whoever_is_too_late_is_told_who_decided_and_exits_with_one(kiosk, ref):
    kiosk("deny", ref, "--principal", "dana")
    late = kiosk("approve", ref, "--principal", "robin")
    assert late.exit == 1 and f"too_late: dana denied {ref} at " in late.err


def test_whoever_made_the_call_is_told_until_when_it_waits_and_where_to_decide(kiosk):
    said = kiosk(*call("give", "--principal", "agent:till", amount=800)).out
    ref = said.splitlines()[0].split()[-1]
    assert re.search(r"waits until +20\d\d-", said)
    assert re.search(rf"to decide +takeback show {ref}$", said, re.MULTILINE)
    assert "waits until" not in kiosk("show", ref).out


def test_a_decision_that_is_repeated_is_no_call_to_make_once_more(kiosk, ref):
    kiosk("approve", ref, "--principal", "dana")
    said = kiosk("approve", ref, "--principal", "robin").out
    assert "(decided before)" in said and "--repeat-of" not in said


def test_an_agent_and_who_made_the_call_are_refused(kiosk, ref):
    assert kiosk("approve", ref, "--principal", "agent:till", "--json").code == "no_access"
    own = kiosk.ref(*call("give", "--principal", "dana", amount=600))
    refused = kiosk("approve", own, "--principal", "user:dana")
    assert refused.exit == 1 and "another person" in refused.err
    assert kiosk("approve", own, "--principal", "robin").exit == 0


def test_a_yes_to_something_else_is_refused(kiosk, ref):
    other = kiosk.ref(*call("give", amount=700))
    expect = kiosk("show", other, "--json").document["approval"]["expect"]
    refused = kiosk("approve", ref, "--expect", expect, "--principal", "dana", "--json")
    assert (refused.exit, refused.code) == (1, "approval_mismatch")
    assert kiosk("show", ref, "--json").document["state"] == "awaiting_approval"


def test_a_ref_that_there_is_not_exits_with_three(kiosk):
    assert kiosk("approve", "give-00000000").exit == 3
    assert kiosk("deny", "give-00000000").exit == 3


def test_a_request_that_is_over_is_shown_as_expired_without_a_worker(kiosk, ref, database_url):
    with psycopg.connect(database_url) as tx:
        tx.execute("UPDATE takeback.intents SET expires_at = takeback.now() - interval '1 s'")
    shown = kiosk("show", ref, "--json").document
    assert (shown["state"], shown["approval"]["state"]) == ("expired", "expired")
    assert kiosk("approve", ref, "--principal", "dana", "--json").code == "too_late"


def test_who_would_approve_what_needs_no_approval_is_told_that_first(kiosk: Terminal):
    """Also who has made the call: that another person has to would not be true."""
    held = kiosk.ref(*call("post", "--principal", "dana", to="olu"))
    for person in ("dana", "robin"):
        said = kiosk("approve", held, "--principal", person, "--json")
        assert (said.exit, said.code) == (1, "approval_mismatch")
        assert "it needs no approval" in said.document["error"]["message"]


def test_nobody_approves_their_own_call_before_or_after_another_person_has(kiosk: Terminal):
    own = kiosk.ref(*call("give", "--principal", "dana", amount=501))
    assert kiosk("approve", own, "--principal", "dana", "--json").code == "no_access"
    assert kiosk("approve", own, "--principal", "robin").exit == 0
    assert kiosk("approve", own, "--principal", "dana", "--json").code == "no_access"


def test_an_approval_of_what_was_taken_back_since_is_not_done(kiosk, ref):
    assert kiosk("approve", ref, "--principal", "dana").exit == 0
    assert kiosk("approve", ref, "--principal", "dana").exit == 0, "twice is once"
    assert kiosk("restore", ref).exit == 0
    said = kiosk("approve", ref, "--principal", "dana", "--json")
    assert (said.exit, said.document["status"]) == (1, "refused")
