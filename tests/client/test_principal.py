"""Who called, on whose behalf, in which run; what an agent may take back; other tenants."""

import json

import pytest

from takeback.declare import RUN, Key
from takeback.model.errors import PersonRequired

LETTER = {"to": "r-1", "subject": "due"}
ONE, OTHER = "agent:one", "agent:other"


def fact(desk, ref):
    """The first event of an intent, as it stands in the log."""
    payload = desk.value(
        """
        SELECT e.payload FROM takeback.events AS e JOIN takeback.intents AS i
        ON (i.tenant, i.id) = (e.tenant, e.intent_id) WHERE i.ref = %s AND e.version = 1
        """,
        ref,
    )
    return json.loads(payload)


def test_who_called_on_whose_behalf_and_in_which_run_stands_in_the_log(desk, caller):
    told = caller.call(
        desk.app, "send_letter", LETTER, principal=ONE, on_behalf_of="user:dana", run="run-7"
    )
    caller.commit()
    first = fact(desk, told.ref)
    assert (first["principal"], first["on_behalf_of"], first["run"]) == (ONE, "user:dana", "run-7")
    row = desk.rows("SELECT principal, on_behalf_of, run FROM takeback.intents")
    assert row == [(ONE, "user:dana", "run-7")]
    assert desk.app.verify().problems == ()


def test_many_calls_are_made_on_behalf_of_one(desk, joined):
    from takeback import Call

    calls = [Call(tool="send_letter", arguments=LETTER | {"to": f"r-{n}"}) for n in range(3)]
    joined.call_many(desk.app, calls, principal=ONE, on_behalf_of="dana")
    joined.commit()
    assert desk.rows("SELECT DISTINCT on_behalf_of FROM takeback.intents") == [("dana",)]


@pytest.mark.parametrize(
    "wrong", ["", "robot:x", "agent:", "user:", "two words", "x" * 201, 7, "a\nb"]
)
def test_somebody_on_whose_behalf_nobody_can_act_is_refused_by_name(desk, wrong):
    told = desk.app.call(None, "send_letter", LETTER, principal=ONE, on_behalf_of=wrong)
    assert told.code == "invalid_argument"
    assert [v["field"] for v in told.error["violations"]] == ["on_behalf_of"]
    assert desk.is_empty()


def test_an_agent_takes_back_what_its_own_principal_did(desk):
    told = desk.app.call(None, "send_letter", LETTER, principal=ONE, run="r-1")
    back = desk.app.restore(None, told.ref, principal=ONE, run="r-2")
    assert back.status == "done"


def test_an_agent_takes_back_what_another_did_in_its_own_run(desk):
    told = desk.app.call(None, "send_letter", LETTER, principal=ONE, run="r-1")
    assert desk.app.restore(None, told.ref, principal=OTHER, run="r-1").status == "done"


@pytest.mark.parametrize("run", [None, "r-2"])
@pytest.mark.parametrize("first_run", [None, "r-1"])
def test_an_agent_takes_back_nothing_that_others_did_elsewhere(desk, run, first_run):
    """S0.12: said once, plainly, and not tried again."""
    told = desk.app.call(None, "send_letter", LETTER, principal=ONE, run=first_run)
    events = desk.counts()["events"]
    refused = desk.app.restore(None, told.ref, principal=OTHER, run=run)
    called = desk.app.call(None, "restore", {"ref": told.ref}, principal=OTHER, run=run)
    for answer in (refused, called):
        assert (answer.code, answer.error["class"]) == ("no_access", "terminal")
        assert answer["repeat_can_succeed"] is False
        assert answer["effect"] == "none"
    assert desk.counts()["events"] == events
    assert desk.state(told.ref) == "held"


def test_an_agent_does_not_take_back_what_a_person_did_in_its_run(desk):
    told = desk.app.call(None, "send_letter", LETTER, principal="dana", run="r-1")
    assert desk.app.restore(None, told.ref, principal=ONE, run="r-1").code == "no_access"


def test_a_refused_agent_is_not_told_that_it_was_taken_back_already(desk):
    told = desk.app.call(None, "send_letter", LETTER, principal=ONE)
    desk.app.restore(None, told.ref, principal=ONE)
    refused = desk.app.restore(None, told.ref, principal=OTHER)
    assert refused.code == "no_access"
    assert ONE not in refused.to_json()


@pytest.mark.parametrize("person", ["dana", "user:dana"])
def test_a_person_takes_back_what_an_agent_did_and_is_named(desk, person):
    told = desk.app.call(None, "send_letter", LETTER, principal=ONE, run="r-1")
    assert desk.app.restore(None, told.ref, principal=person).status == "done"
    assert desk.app.status(told.ref)["taken_back_by"] == person


def test_the_apps_own_code_that_names_nobody_takes_back_anything(desk):
    told = desk.app.call(None, "send_letter", LETTER, principal=ONE, run="r-1")
    assert desk.app.restore(None, told.ref).status == "done"


@pytest.mark.parametrize(("granted", "allowed"), [({ONE}, True), ({"*"}, True), ({"x"}, False)])
def test_an_agent_takes_back_what_its_app_grants(desk, granted, allowed):
    app = desk.make_app(grants={OTHER: granted})
    told = app.call(None, "send_letter", LETTER, principal=ONE, run="r-1")
    back = app.restore(None, told.ref, principal=OTHER)
    assert back.code == (None if allowed else "no_access")
    assert desk.app.restore(None, told.ref, principal="agent:third").code == "no_access"


def test_a_restore_is_taken_back_by_who_made_it_and_by_nobody_elses_agent(desk):
    told = desk.app.call(None, "send_letter", LETTER, principal=ONE)
    back = desk.app.restore(None, told.ref, principal=ONE)
    assert desk.app.restore(None, back.ref, principal=OTHER).code == "no_access"
    assert desk.app.restore(None, back.ref, principal=ONE).status == "done"


# ── other tenants ────────────────────────────────────────────────────────────────────────────────


def test_no_answer_tells_of_another_tenants_intent(desk):
    theirs = desk.make_app(tenant="theirs")
    told = theirs.call(None, "send_letter", LETTER, principal="dana", run="r-1")
    answers = [
        desk.app.status(told.ref),
        desk.app.restore(None, told.ref, principal="dana"),
        desk.app.restore(None, told.ref, principal=ONE, run="r-1"),
        desk.app.call(None, "restore", {"ref": told.ref}, principal="dana"),
        desk.app.call(None, "send_letter", LETTER, repeat_of=told.ref),
    ]
    for answer in answers:
        assert answer.code == "no_such_ref"
        assert answer.error["alternatives"] == []
    assert desk.app.list() == []
    assert desk.app.call(None, "send_letter", LETTER).replayed is False


def test_a_look_alike_in_another_tenant_is_not_suggested(desk):
    """S0.6."""
    theirs = desk.make_app(tenant="theirs")
    told = theirs.call(None, "send_letter", LETTER)
    mistyped = f"{told.ref[:-1]}{'0' if told.ref[-1] != '0' else '1'}"
    assert theirs.status(mistyped).error["alternatives"] == [told.ref]
    assert desk.app.status(mistyped).error["alternatives"] == []


def test_a_run_of_another_tenant_is_another_run(desk):
    changed = {"send_letter": {"key": Key(("to", "subject"), scope=RUN)}}
    ours = desk.make_app(changed=changed)
    theirs = desk.make_app(tenant="theirs", changed=changed)
    one = ours.call(None, "send_letter", LETTER, run="r-1")
    assert theirs.call(None, "send_letter", LETTER, run="r-1").replayed is False
    assert ours.call(None, "send_letter", LETTER, run="r-1").ref == one.ref


# ── other spellings ──────────────────────────────────────────────────────────────────────────────

REFUND = {"charge": "ch_2", "amount": 90_000, "currency": "EUR"}


@pytest.mark.parametrize(
    ("caller_name", "approver"),
    [
        ("dana", "user:user:dana"),
        ("user:user:dana", "dana"),
        ("dana", "Dana"),
        ("user:dana", "user:DANA"),
        ("andr\u00e9", "andre\u0301"),
        ("dana", "\uff44\uff41\uff4e\uff41"),
    ],
    ids=["twice", "once", "capital", "capitals", "parts", "wide"],
)
def test_who_has_made_a_call_approves_it_in_no_other_spelling(desk, caller_name, approver):
    ref = desk.app.call(None, "refund", REFUND, principal=caller_name).ref
    told = desk.app.approve(None, ref, principal=approver)
    assert (told.code, desk.state(ref)) == ("no_access", "awaiting_approval")


@pytest.mark.parametrize(
    "name",
    ["user:agent:one", "user:Agent:one", "user:user:agent:one", "agent\uff1aone"],
    ids=["user", "capital", "users", "wide"],
)
def test_an_agent_is_one_in_every_spelling(desk, name):
    """It decides nothing, forces nothing, freezes nothing, and takes back only its own."""
    ref = desk.app.call(None, "refund", REFUND, principal="agent:support").ref
    letter = desk.app.call(None, "send_letter", LETTER, principal=OTHER).ref
    assert desk.app.approve(None, ref, principal=name).code == "no_access"
    assert desk.app.deny(None, ref, principal=name).code == "no_access"
    assert desk.app.restore(None, letter, principal=name).code == "no_access"
    assert desk.app.restore(None, letter, principal=name, force=True).code == "no_access"
    with pytest.raises(PersonRequired):
        desk.app.freeze(tool="refund", reason="odd", principal=name)
    assert (desk.state(ref), desk.state(letter)) == ("awaiting_approval", "held")
