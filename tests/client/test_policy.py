"""Who decides first: the row, how many rows, a repeat that is meant, or the app's own policy."""

import json
from datetime import timedelta

import pytest

from takeback import NotDispatched, Performed, Permission, Proposal, Rejected, RetryTransaction
from takeback.client.batching import Call
from takeback.declare import GATED, REFUSE, Approval, Limit

LETTER = {"to": "r-1", "subject": "due"}
BOOK = {"book": "b1"}


def events_of(desk, ref):
    rows = desk.rows(
        """
        SELECT e.kind, e.payload FROM takeback.events AS e JOIN takeback.intents AS i
        ON (i.tenant, i.id) = (e.tenant, e.intent_id) WHERE i.ref = %s ORDER BY e.version
        """,
        ref,
    )
    return [(kind, json.loads(payload)) for kind, payload in rows]


def cause_of(desk, ref):
    return events_of(desk, ref)[0][1]["approval_cause"]


# ── the app's own policy ─────────────────────────────────────────────────────────────────────────


def test_a_preview_is_asked_about_as_the_call_on_whose_behalf_it_is_made(desk):
    """A policy that looks at whom it is for foretells what the call will hear."""
    app = desk.make_app(
        policy=lambda proposal: (
            Permission.ALLOW if proposal.on_behalf_of == "dana" else Permission.REFUSE
        )
    )
    for whom, code in (("dana", None), ("olu", "no_access"), (None, "no_access")):
        seen = app.preview(None, "send_letter", LETTER, on_behalf_of=whom)
        asked = {"tool": "send_letter", "arguments": LETTER}
        called = app.call(None, "preview", asked, on_behalf_of=whom)
        (batched,) = app.call_many(None, [Call(tool="preview", arguments=asked)], on_behalf_of=whom)
        assert (seen.code, called.code, batched.code) == (code, code, code)
    assert desk.is_empty()


def test_a_policy_is_asked_with_what_is_known_of_the_call(desk):
    asked = []

    def policy(proposal):
        asked.append(proposal)
        return Permission.ALLOW

    app = desk.make_app(policy=policy)
    first = app.call(
        None, "send_letter", LETTER, run="r-7", principal="agent:a", on_behalf_of="dana"
    )
    app.call(None, "send_letter", LETTER, repeat_of=first.ref, principal="agent:a")
    app.call(None, "find_books", {"query": "x"})
    assert asked == [
        Proposal(
            tool="send_letter",
            tier=GATED,
            arguments={"to": "r-1", "subject": "due", "note": ""},
            run="r-7",
            principal="agent:a",
            on_behalf_of="dana",
            repeat_of=None,
        ),
        Proposal(
            tool="send_letter",
            tier=GATED,
            arguments={"to": "r-1", "subject": "due", "note": ""},
            run=None,
            principal="agent:a",
            on_behalf_of=None,
            repeat_of=first.ref,
        ),
    ]


def broken(_):
    raise RuntimeError("SELECT secret")


@pytest.mark.parametrize(
    "policy",
    [
        lambda _: Permission.ASK,
        lambda _: "ask",
        lambda _: None,
        lambda _: True,
        lambda _: "ALLOW",
        lambda _: "yes",
        lambda _: 1,
        broken,
    ],
    ids=["ask", "word", "nothing", "true", "upper", "unknown", "one", "broken"],
)
def test_what_a_policy_does_not_plainly_allow_waits_for_a_person(desk, caller, policy):
    """A missing, null or unknown decision means no."""
    app = desk.make_app(policy=policy)
    told = caller.call(app, "send_letter", LETTER)
    caller.commit()
    assert told.status == "needs_approval"
    assert "secret" not in told.to_json()
    assert cause_of(desk, told.ref) == "policy"
    desk.shift(timedelta(hours=1))
    desk.work(app)
    assert desk.world.done == []


@pytest.mark.parametrize("word", ["allow", Permission.ALLOW])
def test_what_a_policy_allows_goes_on(desk, word):
    told = desk.make_app(policy=lambda _: word).call(None, "send_letter", LETTER)
    assert told.status == "scheduled"


def test_what_a_policy_refuses_is_not_recorded_and_a_repeat_is_answered_all_the_same(desk, caller):
    """S2.9: the replay is looked up before anything that may have changed since."""
    words = ["allow", "refuse", "refuse"]
    app = desk.make_app(policy=lambda _: words.pop(0))
    first = app.call(None, "send_letter", LETTER)
    again = caller.call(app, "send_letter", LETTER)
    other = caller.call(app, "send_letter", LETTER | {"to": "r-2"})
    caller.commit()
    assert (again.ref, again.replayed) == (first.ref, True)
    assert (other.status, other.code) == ("refused", "no_access")
    assert desk.counts()["intents"] == 1


@pytest.mark.parametrize(
    "problem",
    [Rejected("no"), NotDispatched("not now"), RetryTransaction("again")],
    ids=["rejected", "not_dispatched", "retry"],
)
def test_a_policy_that_raises_what_a_handler_may_raise_is_a_broken_one(desk, caller, problem):
    """An exception is no permission, and no end of the caller's transaction either."""

    def policy(_):
        raise problem

    told = caller.call(desk.make_app(policy=policy), "send_letter", LETTER)
    caller.commit()
    assert told.status == "needs_approval"
    assert cause_of(desk, told.ref) == "policy"


def test_a_policy_that_changes_what_it_is_shown_changes_nothing_of_the_call(desk, caller):
    """Two calls that it made look alike are two, each recorded as it came."""

    def policy(proposal):
        proposal.arguments["to"] = "nobody"
        return Permission.ALLOW

    app = desk.make_app(policy=policy)
    told = [caller.call(app, "send_letter", LETTER | {"to": to}) for to in ("r-1", "r-2")]
    again = caller.call(desk.app, "send_letter", LETTER)
    caller.commit()
    assert told[0].ref != told[1].ref
    assert (again.ref, again.replayed) == (told[0].ref, True)
    assert [one["affected"][0]["id"] for one in told] == ["r-1", "r-2"]


def test_a_policy_cant_talk_a_limit_down(desk):
    def policy(proposal):
        proposal.arguments["amount"] = 1
        return Permission.ALLOW

    limit = Limit(money=100, currency="EUR", over=REFUSE)
    app = desk.make_app(policy=policy, changed={"refund": {"limits": (limit,)}})
    told = app.call(None, "refund", {"charge": "c-1", "amount": 500, "currency": "EUR"})
    assert told.code == "limit_exceeded"
    assert desk.is_empty()


@pytest.mark.parametrize(
    ("approval", "once_more"),
    [(Approval(argument="amount", over=100), False), (Approval(repeats=True), True)],
    ids=["row", "repeat"],
)
def test_what_a_policy_refuses_no_row_has_a_person_asked_about(desk, caller, approval, once_more):
    words = ["allow"] if once_more else []
    app = desk.make_app(
        policy=lambda _: words.pop() if words else "refuse",
        changed={"refund": {"approval": approval}},
    )
    refund = {"charge": "c-1", "amount": 500, "currency": "EUR"}
    first = caller.call(app, "refund", refund).ref if once_more else None
    told = caller.call(app, "refund", refund, repeat_of=first)
    caller.commit()
    assert (told.status, told.code) == ("refused", "no_access")
    assert desk.counts()["intents"] == int(once_more)


# ── what the row wants ───────────────────────────────────────────────────────────────────────────


def app_with(desk, tool, approval):
    return desk.make_app(changed={tool: {"approval": approval}})


def test_meaning_it_twice_is_gated_where_the_row_says_so(desk, caller):
    """saleor/apps #2446, with a person in between."""
    app = app_with(desk, "refund", Approval(repeats=True))
    refund = {"charge": "c-1", "amount": 500, "currency": "EUR"}
    first = caller.call(app, "refund", refund)
    second = caller.call(app, "refund", refund, repeat_of=first.ref)
    retried = caller.call(app, "refund", refund, repeat_of=first.ref)
    caller.commit()
    assert (first.status, second.status) == ("scheduled", "needs_approval")
    assert (retried.ref, retried.replayed) == (second.ref, True)
    assert cause_of(desk, second.ref) == "repeat"


@pytest.mark.parametrize(("bound", "status"), [(2, "needs_approval"), (3, "done")])
def test_a_local_call_that_would_affect_many_rows_waits_and_has_changed_nothing(
    desk, caller, bound, status
):
    app = app_with(desk, "delete_book", Approval(rows_over=bound))
    told = caller.call(app, "delete_book", BOOK)
    caller.commit()
    assert told.status == status
    assert (desk.book("b1") is None) == (status == "done")
    if status == "done":
        return
    assert cause_of(desk, told.ref) == "rows"
    assert told["affected_count"] == 3
    assert [one["id"] for one in told.affected] == ["b1", "l1", "l2"]
    assert told["approval"]["expires_at"] is not None
    again = app.call(None, "delete_book", BOOK)
    assert (again.ref, again.status, again.replayed) == (told.ref, "needs_approval", True)
    assert desk.counts()["intents"] == 1
    assert desk.app.verify().problems == ()


def test_rows_are_counted_without_a_savepoint_of_the_callers_too(desk, caller):
    app = app_with(desk, "delete_book", Approval(rows_over=2))
    told = caller.call(app, "delete_book", BOOK, savepoint=False)
    caller.commit()
    assert told.status == "needs_approval"
    assert desk.book("b1") is not None


def test_a_row_that_always_asks_foresees_what_it_would_affect(desk, caller):
    app = app_with(desk, "delete_book", Approval())
    told = caller.call(app, "delete_book", BOOK)
    caller.commit()
    assert told.status == "needs_approval"
    assert (told["affected_count"], desk.book("b1") is not None) == (3, True)
    stored = desk.value("SELECT body FROM takeback.bodies WHERE name = 'affected'")
    assert json.loads(stored)["affected_count"] == 3


def test_what_a_gated_call_names_wrongly_is_said_before_anybody_is_asked(desk, caller):
    app = app_with(desk, "delete_book", Approval())
    told = caller.call(app, "delete_book", {"book": "nowhere"})
    caller.commit()
    assert told.code == "invalid_argument"
    assert told.error["violations"][0]["field"] == "book"
    assert desk.is_empty()


def test_a_request_stays_open_as_long_as_the_row_says(desk):
    app = app_with(desk, "send_letter", Approval(expires=timedelta(hours=2)))
    told = app.call(None, "send_letter", LETTER)
    recorded, expires = desk.rows("SELECT recorded_at, expires_at FROM takeback.intents")[0]
    assert expires - recorded == timedelta(hours=2)
    desk.shift(timedelta(hours=3))
    late = app.call(None, "send_letter", LETTER)
    assert (late.ref, late.status) == (told.ref, "refused")


def test_a_rejection_foreseen_before_a_person_is_asked_is_no_request(desk):
    from takeback import Rejected

    def perform(session, arguments):
        raise Rejected("never", alternatives=[{"case": "y"}])

    desk.case("x", perform)
    told = desk.app.call(None, "act_over_limit", {"case": "x"})
    assert (told.status, told.code) == ("refused", "provider_rejected")
    assert told.error["alternatives"] == [{"case": "y"}]
    assert "awaiting_approval" not in desk.states().values()


def test_what_the_handler_says_it_affects_decides_not_what_the_row_says(desk):
    desk.case("x", lambda session, arguments: Performed(affected_count=5))
    app = app_with(desk, "act", Approval(rows_over=4))
    assert app.call(None, "act", {"case": "x"}).status == "needs_approval"
