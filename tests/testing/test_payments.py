"""The fake payment provider: one effect per key, a ceiling per charge, and every way to fail."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from takeback.model.errors import NotDispatched, OutcomeUnknown, Rejected
from takeback.model.handler import Absent, Affected, Attempt, Original, Performed
from takeback.testing import (
    AnswerLost,
    FakePayments,
    ProviderBusy,
    ProviderDown,
    ProviderFault,
    ProviderRefused,
)
from takeback.testing.payments import refund_handler
from tests.connectors.peer import attempt as any_attempt
from tests.testing import race

FRESH = multiprocessing.get_context("spawn")


@pytest.fixture
def payments(tmp_path: Path) -> FakePayments:
    return race.payments(tmp_path)


def arguments(**changes) -> SimpleNamespace:
    values = {"charge_id": "ch_1", "amount": 1000, "currency": "EUR", "reason": "duplicate"}
    return SimpleNamespace(**{**values, **changes})


def attempt(key: str) -> Attempt:
    return replace(any_attempt(), provider_key=key)


def original(result: dict) -> Original:
    return Original(
        intent_id="0199", ref="refund_charge-7F3K9QDM", tenant="acme", arguments={}, result=result
    )


def refused(code: str, call, *args, **options) -> ProviderRefused:
    with pytest.raises(ProviderRefused) as refusal:
        call(*args, **options)
    assert refusal.value.code == code
    return refusal.value


def test_a_refund_gives_money_back_up_to_the_charge(payments):
    first = payments.refund("ch_1", 12000, "EUR", key="a")
    refusal = refused("over_ceiling", payments.refund, "ch_1", 901, "EUR", key="b")
    assert refusal.alternatives == ({"amount": 900, "currency": "EUR"},)
    payments.refund("ch_1", 900, "EUR", key="c")
    assert payments.charges["ch_1"].refundable == 0
    assert payments.charges["ch_2"].refunded == 0
    assert [one.amount for one in payments.refunds] == [12000, 900]
    assert payments.refunds[0] == first


@pytest.mark.parametrize(
    "code,asked",
    [
        ("no_such_charge", ("ch_9", 1, "EUR")),
        ("other_currency", ("ch_1", 1, "USD")),
        ("invalid_amount", ("ch_1", 0, "EUR")),
        ("invalid_amount", ("ch_1", -5, "EUR")),
        ("over_ceiling", ("ch_1", 12901, "EUR")),
    ],
)
def test_a_refund_that_can_not_be_is_refused_and_changes_nothing(payments, code, asked):
    before = payments.charges
    refused(code, payments.refund, *asked, key="a")
    assert payments.charges == before
    assert payments.refunds == []


def test_the_same_key_gets_the_same_answer_and_no_second_refund(payments):
    first = payments.refund("ch_1", 1000, "EUR", key="a")
    assert payments.refund("ch_1", 1000, "EUR", key="a") == first
    assert payments.refunds == [first]
    assert payments.requests == ["a", "a"]


def test_the_same_key_with_other_parameters_is_refused(payments):
    payments.refund("ch_1", 1000, "EUR", key="a")
    refused("key_reused", payments.refund, "ch_1", 1001, "EUR", key="a")
    refused("key_reused", payments.refund, "ch_2", 1000, "EUR", key="a")
    refused("key_reused", payments.charge_again, payments.refunds[0].id, key="a")
    assert len(payments.refunds) == 1


def test_a_refusal_is_kept_under_its_key_until_the_key_expires(payments):
    payments.refund("ch_1", 12000, "EUR", key="most")
    refusal = refused("over_ceiling", payments.refund, "ch_1", 1000, "EUR", key="a")
    payments.charge_again(payments.refunds[0].id, key="back")
    again = refused("over_ceiling", payments.refund, "ch_1", 1000, "EUR", key="a")
    assert (again.message, again.alternatives) == (refusal.message, refusal.alternatives)
    assert payments.refund("ch_1", 1000, "EUR", key="b")


def test_a_key_is_forgotten_after_its_time_and_the_effect_can_still_be_looked_up(payments):
    first = payments.refund("ch_1", 1000, "EUR", key="a")
    payments.advance(timedelta(hours=23, minutes=59))
    assert payments.refund("ch_1", 1000, "EUR", key="a") == first
    payments.advance(timedelta(minutes=1))
    assert payments.look_up("a") == first
    assert payments.refund("ch_1", 1000, "EUR", key="a") != first
    assert len(payments.refunds) == 2


def test_charging_again_takes_one_refund_back_once(payments):
    first = payments.refund("ch_1", 1000, "EUR", key="a")
    second = payments.refund("ch_1", 1000, "EUR", key="b")
    payments.charge_again(first.id, key="c")
    payments.charge_again(first.id, key="c")
    refused("already_charged_again", payments.charge_again, first.id, key="d")
    refused("no_such_refund", payments.charge_again, "re_999", key="e")
    assert payments.charges["ch_1"].refunded == 1000
    assert [one.charged_again for one in payments.refunds] == [True, False]
    assert payments.look_up("b") == second


FAULTS = [
    (ProviderFault.DOWN, ProviderDown, NotDispatched, 0, 0),
    (ProviderFault.BUSY, ProviderBusy, OutcomeUnknown, 0, 1),
    (ProviderFault.FAIL_BEFORE_COMMIT, AnswerLost, OutcomeUnknown, 0, 1),
    (ProviderFault.DROP_ANSWER, AnswerLost, OutcomeUnknown, 1, 1),
]


@pytest.mark.parametrize("fault,raised,outcome,effects,arrived", FAULTS)
def test_each_fault_has_its_exception_and_effect_and_a_retry_makes_one_of_it(
    payments, fault, raised, outcome, effects, arrived
):
    payments.inject(fault, times=2)
    for _ in range(2):
        with pytest.raises(raised):
            payments.refund("ch_1", 1000, "EUR", key="a")
    assert len(payments.refunds) == effects
    assert payments.requests == ["a"] * 2 * arrived
    payments.refund("ch_1", 1000, "EUR", key="a")
    assert len(payments.refunds) == 1


@pytest.mark.parametrize("fault,raised,outcome,effects,arrived", FAULTS)
def test_each_fault_has_its_outcome_for_the_engine(
    payments, fault, raised, outcome, effects, arrived
):
    handler = refund_handler(payments)
    assert handler.find is not None
    payments.inject(fault)
    with pytest.raises(outcome):
        handler.perform(arguments(), attempt("a"))
    found = handler.find(arguments(), attempt("a"))
    assert isinstance(found, Performed if effects else Absent)
    assert isinstance(handler.perform(arguments(), attempt("a")), Performed)
    assert len(payments.refunds) == 1


def test_a_refusal_is_a_rejection_with_what_would_be_possible(payments):
    handler = refund_handler(payments)
    with pytest.raises(Rejected) as refusal:
        handler.perform(arguments(amount=99999), attempt("a"))
    assert refusal.value.alternatives == ({"amount": 12900, "currency": "EUR"},)
    with pytest.raises(Rejected, match="ch_9"):
        handler.perform(arguments(charge_id="ch_9"), attempt("b"))


def test_the_handler_refunds_finds_and_takes_back(payments):
    handler = refund_handler(payments)
    assert handler.find is not None
    assert handler.restore is not None
    performed = handler.perform(arguments(), attempt("a"))
    assert performed.affected == [Affected(kind="charge", id="ch_1")]
    assert handler.find(arguments(), attempt("a")) == performed
    assert handler.find(arguments(), attempt("never")) == Absent()
    handler.restore(original(performed.result), attempt("r"))
    handler.restore(original(performed.result), attempt("r"))
    assert payments.charges["ch_1"].refunded == 0
    with pytest.raises(Rejected, match="charged again before"):
        handler.restore(original(performed.result), attempt("r2"))


@pytest.mark.parametrize("fault,raised,outcome,effects,arrived", FAULTS)
def test_taking_back_fails_like_refunding(payments, fault, raised, outcome, effects, arrived):
    handler = refund_handler(payments)
    assert handler.restore is not None
    performed = handler.perform(arguments(), attempt("a"))
    payments.inject(fault)
    with pytest.raises(outcome):
        handler.restore(original(performed.result), attempt("r"))
    assert payments.refunds[0].charged_again is bool(effects)
    handler.restore(original(performed.result), attempt("r"))
    assert payments.charges["ch_1"].refunded == 0


def test_while_a_request_is_under_way_nobody_can_say_what_becomes_of_it(payments):
    handler = refund_handler(payments)
    assert handler.find is not None
    payments.inject(ProviderFault.SLOW)
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(handler.perform, arguments(), attempt("a"))
        assert payments.wait_for_slow()
        with pytest.raises(OutcomeUnknown):
            handler.perform(arguments(), attempt("a"))
        assert handler.find(arguments(), attempt("a")) is None
        assert handler.find(arguments(), attempt("b")) == Absent()
        assert payments.refund("ch_2", 1, "EUR", key="b")
        payments.release()
        performed = slow.result(20)
    assert handler.find(arguments(), attempt("a")) == performed
    assert len(payments.refunds) == 2


def test_a_provider_that_is_down_can_not_be_asked(payments):
    handler = refund_handler(payments)
    assert handler.find is not None
    payments.inject(ProviderFault.DOWN)
    assert handler.find(arguments(), attempt("a")) is None
    assert handler.find(arguments(), attempt("a")) == Absent()


def test_a_slow_request_ends_by_itself(payments):
    payments.inject(ProviderFault.SLOW, seconds=0.01)
    assert payments.refund("ch_1", 1000, "EUR", key="a")


def test_a_killed_caller_leaves_no_effect_and_no_lock_behind(payments, tmp_path):
    payments.inject(ProviderFault.SLOW)
    caller = FRESH.Process(target=race.refund_slowly, args=(tmp_path, "a"))
    caller.start()
    assert payments.wait_for_slow(seconds_max=60)
    with pytest.raises(ProviderBusy):
        payments.look_up("a")
    caller.kill()
    caller.join(20)
    assert payments.look_up("a") is None
    payments.refund("ch_1", 1000, "EUR", key="a")
    assert len(payments.refunds) == 1


def test_several_processes_see_one_provider_and_one_effect_per_key(payments, tmp_path):
    keys = [f"key-{number % 10}" for number in range(40)]
    with ProcessPoolExecutor(4, mp_context=FRESH) as pool:
        answers = list(pool.map(race.refund, [tmp_path] * 40, keys, [1000] * 40))
    by_key = {key: {a for k, a in zip(keys, answers, strict=True) if k == key} for key in keys}
    assert all(len(answers) == 1 for answers in by_key.values())
    assert len({next(iter(answers)) for answers in by_key.values()}) == 10
    assert payments.charges["ch_1"].refunded == 10_000


def test_several_processes_never_refund_more_than_the_charge(payments, tmp_path):
    keys = [f"key-{number}" for number in range(24)]
    with ProcessPoolExecutor(4, mp_context=FRESH) as pool:
        answers = list(pool.map(race.refund, [tmp_path] * 24, keys, [1000] * 24))
    assert answers.count("over_ceiling") == 12
    assert payments.charges["ch_1"].refunded == 12_000


def test_an_unfinished_line_counts_as_never_written(payments, tmp_path):
    payments.refund("ch_1", 1000, "EUR", key="a")
    with (tmp_path / "payments.jsonl").open("ab") as journal:
        journal.write(b'{"event": "comm')
    assert len(payments.refunds) == 1
    assert len(race.payments(tmp_path).refunds) == 1
    payments.refund("ch_1", 1000, "EUR", key="b")
    assert len(race.payments(tmp_path).refunds) == 2


def test_the_directory_may_be_known_later_and_may_change(tmp_path):
    places = [tmp_path / "one"]
    payments = FakePayments(lambda: places[-1], charges=race.CHARGES)
    payments.refund("ch_1", 1000, "EUR", key="a")
    places.append(tmp_path / "two")
    assert payments.refunds == []
    places.pop()
    assert len(payments.refunds) == 1


def test_a_fault_for_no_request_is_refused(payments):
    with pytest.raises(ValueError, match="times=0"):
        payments.inject(ProviderFault.DOWN, times=0)
