"""Any call in any state of the world gets one of the closed words; the ledger stays provable."""

import random
from contextlib import contextmanager

import psycopg
import pytest

from takeback import Call
from takeback.declare import REFUSE, Limit
from takeback.model.intent import State, is_denied
from takeback.model.status import STATUS
from tests.client.caller import CALLERS
from tests.client.closed_answer import about_intent, require_closed
from tests.client.every_state import FINAL, STATES
from tests.client.walk import Walk

WALKS = 4
STEPS = 100
NOT_BY_CALLS = {"recorded", "waiting"}
"""Passed through inside one transaction, and brought about by no call of this release."""


def test_every_state_of_a_call_is_among_those_looked_at():
    assert {state for state, _ in STATES.values()} == set(State) - NOT_BY_CALLS


@pytest.fixture(params=STATES)
def asked(request, desk):
    """A call as it was made, its ref, and the state that it has got into."""
    state, bring = STATES[request.param]
    tool, arguments = bring(desk)
    ref = next(iter(desk.states()))
    assert desk.state(ref) == state
    return tool, arguments, ref


def test_an_equal_call_has_the_same_bytes_whoever_asks_and_however(desk, asked):
    """S0.8, S2.8, S2.9, S3.3: in every state; what is asked of new calls is not asked of it."""
    tool, arguments, ref = asked
    first = desk.app.call(None, tool, arguments)
    require_closed(first)
    assert (first.ref, first.replayed) == (ref, True)
    assert about_intent(first) == about_intent(desk.app.status(ref))
    limited = {tool: {"limits": (Limit(count=1, over=REFUSE),)}}
    strict = desk.make_app(policy=lambda _: "refuse", changed=limited)
    again = [
        desk.app.call(None, tool, arguments, run="other", principal="agent:other"),
        desk.app.call(None, tool, arguments, expect="preview-00000000"),
        *desk.app.call_many(None, [Call(tool=tool, arguments=arguments)] * 2),
        strict.call(None, tool, arguments),
        desk.make_app(awaiting=True).call(None, tool, arguments),
    ]
    for name in CALLERS:
        caller = CALLERS[name](desk.url)
        again.append(caller.call(desk.app, tool, arguments))
        caller.commit()
        caller.close()
    assert {one.to_json() for one in again} == {first.to_json()}
    desk.app.freeze(tool=tool, reason="a try", principal="mo")
    frozen = desk.app.call(None, tool, arguments)
    desk.app.thaw(tool=tool, reason="tried", principal="mo", rate=1000)
    said = {"hindered_by", "summary"} if first.status == "scheduled" else ()
    assert about_intent(frozen, without=said) == about_intent(first, without=said)
    assert ("hindered_by" in frozen) is (first.status == "scheduled")
    assert desk.states()[ref] == desk.state(ref)
    assert desk.app.verify().problems == ()


def test_the_word_is_that_of_the_state(desk, asked):
    """S0.8: a purged call keeps the word of its last state; what is denied is in doubt."""
    tool, arguments, ref = asked
    intent = desk.app.show(ref).entry.intent
    told = desk.app.call(None, tool, arguments)
    state = State.IN_DOUBT if is_denied(intent) else intent.last_word or intent.state
    assert told.status == STATUS[state]


@contextmanager
def undone(desk):
    """A transaction that is left in the end, so that the next one meets the same state."""
    with psycopg.connect(desk.url) as tx:
        yield tx
        tx.rollback()


def test_whatever_else_is_asked_of_it_is_answered_in_closed_words(desk, asked):
    """S0.8, S2.2, S2.14: other arguments, once more on purpose, taking back, deciding, status."""
    tool, arguments, ref = asked
    app = desk.app
    other = arguments | {"reason": "fraudulent"} if tool == "refund" else arguments | {"note": "n"}
    questions = [
        lambda tx: app.call(tx, tool, other),
        lambda tx: app.call(tx, tool, arguments, repeat_of=ref),
        lambda tx: app.call(tx, tool, arguments, repeat_of=ref, expect="preview-00000000"),
        lambda tx: app.call(tx, tool, arguments | {"more": 1}),
        lambda tx: app.restore(tx, ref),
        lambda tx: app.restore(tx, ref, principal="agent:other", run="other"),
        lambda tx: app.restore(tx, ref, principal="mo", force=True),
        lambda tx: app.restore(tx, ref, principal="agent:other", force=True),
        lambda tx: app.restore(tx, app.restore(tx, ref).ref or "none"),
        lambda tx: app.call(tx, "restore", {"ref": ref}),
        lambda tx: app.approve(tx, ref, principal="mo"),
        lambda tx: app.approve(tx, ref, principal="agent:other"),
        lambda tx: app.deny(tx, ref, principal="mo"),
        lambda tx: app.decide(tx, ref, None, principal="mo"),
        lambda tx: app.status(ref, tx=tx),
    ]
    before = desk.counts()
    for ask in questions:
        with undone(desk) as tx:
            first = ask(tx)
            require_closed(first)
            require_closed(ask(tx))
    for more in ({}, {"repeat_of": ref}):
        require_closed(app.preview(None, tool, arguments | more), reads=True)
    assert desk.counts() == before
    assert desk.app.verify().problems == ()
    assert desk.app.rebuild().differing == ()


@pytest.mark.parametrize("name", FINAL)
def test_what_is_answered_for_good_never_reaches_a_provider_again(desk, name):
    """S2.1, S2.16: also once its bodies are gone."""
    tool, arguments = STATES[f"purged_{name}"][1](desk)
    done, plays = list(desk.world.done), {c: play.performed for c, play in desk.plays.items()}
    for _ in range(3):
        assert desk.app.call(None, tool, arguments).replayed
    desk.work()
    assert desk.world.done == done
    assert {c: play.performed for c, play in desk.plays.items()} == plays


@pytest.mark.parametrize("number", range(WALKS))
def test_whatever_is_asked_in_whatever_order_is_answered_in_closed_words(desk, seed, number):
    """S0.8, S2.2, S2.8, S2.18: status, code, effect and trace id of every answer, by dice."""
    Walk(desk, random.Random(f"{seed} {number}")).run(STEPS)


@pytest.mark.slow
def test_a_long_walk_is_answered_in_closed_words_all_the_way(desk, seed):
    """S0.8, S2.2, S2.8, S2.18: until everything has been in most of its states."""
    walk = Walk(desk, random.Random(f"{seed} long"))
    walk.run(1500)
    assert len(walk.met) > 8, f"a walk that went nowhere: {walk.met}"
