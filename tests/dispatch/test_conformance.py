"""How doubts end with each kind of provider and each way in which a provider fails.

Whatever happens: nothing is doubled, and in the end everything is settled or parked. A kind that
keeps keys or can be asked ends settled, and knows how.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from takeback.declare import (
    BLIND,
    COMPENSATE,
    KEYED,
    LOOKUP,
    Key,
    Remote,
    Text,
    Tool,
    hours,
)
from takeback.dispatch.doubt import DOUBT_SECONDS_MAX
from takeback.model.errors import OutcomeUnknown
from takeback.model.handler import Absent, Attempt, Handler
from takeback.testing import FakePayments, ProviderFault
from takeback.testing.payments import Charge, refund_handler
from tests.dispatch.office import Office, World

CHARGE = Charge(id="ch_1", amount=10_000, currency="EUR")


class Refund(BaseModel):
    """Money back."""

    charge_id: Text
    amount: int
    currency: Text = "EUR"


KINDS: dict[str, Any] = {"keyed": KEYED(ttl=hours(24)), "lookup": LOOKUP, "blind": BLIND}
FINDS = {"keyed": (True, False), "lookup": (True,), "blind": (False,)}

OK, REJECT = "ok", "reject"
SETTLES = {
    OK: "succeeded",
    REJECT: "failed",
    ProviderFault.DOWN: "succeeded",
    ProviderFault.FAIL_BEFORE_COMMIT: "succeeded",
    ProviderFault.DROP_ANSWER: "succeeded",
    ProviderFault.BUSY: "succeeded",
}
"""What is so in the end where somebody can find out."""

IN_DOUBT = (ProviderFault.FAIL_BEFORE_COMMIT, ProviderFault.DROP_ANSWER, ProviderFault.BUSY)


@pytest.fixture
def payments(tmp_path: Path) -> FakePayments:
    return FakePayments(tmp_path, charges=[CHARGE])


def forgetful(handler: Handler, *, keeps_keys: bool, finds: bool) -> Handler:
    """The handler of a provider that perhaps keeps no keys: each attempt is a request of its own.

    It can be asked by the intent all the same, as one that is told our reference can.
    """

    def perform(arguments: Any, attempt: Attempt) -> Any:
        key = attempt.provider_key if keeps_keys else f"{attempt.intent_id}#{attempt.number}"
        return handler.perform(arguments, _under(attempt, key))

    def find(arguments: Any, attempt: Attempt) -> Any:
        assert handler.find is not None
        if keeps_keys:
            return handler.find(arguments, attempt)
        for number in range(1, attempt.number + 1):
            found = handler.find(arguments, _under(attempt, f"{attempt.intent_id}#{number}"))
            if not isinstance(found, Absent):
                return found
        return Absent()

    return Handler(perform=perform, restore=handler.restore, find=find if finds else None)


def _under(attempt: Attempt, key: str) -> Any:
    return SimpleNamespace(provider_key=key, number=attempt.number)


def desk(url: str, kind: str, finds: bool, payments: FakePayments, clock: Any) -> Office:
    effect = Remote(upstream=KINDS[kind], reversal=COMPENSATE)
    key = Key(("charge_id", "amount", "currency"))
    tool = Tool("refund", Refund, effect=effect, description="Refunds.", key=key)
    handler = forgetful(refund_handler(payments), keeps_keys=kind == "keyed", finds=finds)
    handlers = SimpleNamespace(refund=handler)
    return Office(url, World(), rows=[tool], handlers=handlers, pause=clock.advance)


CASES = [(kind, finds) for kind, both in FINDS.items() for finds in both]


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("mode", SETTLES, ids=str)
@pytest.mark.parametrize(("kind", "finds"), CASES)
def test_nothing_is_doubled_and_every_doubt_ends(
    kind, finds, mode, times, database_url, payments, clock
):
    """KEYED, LOOKUP and BLIND; timeouts before and after, refusals, and one that sees repeats."""
    office = desk(database_url, kind, finds, payments, clock)
    if isinstance(mode, ProviderFault):
        payments.inject(mode, times=times)
    amount = 20_000 if mode == REJECT else 1_000
    ref = office.call(None, "refund", {"charge_id": "ch_1", "amount": amount}).ref or ""

    for _ in range(12):
        office.worker_of("w", sleep=clock.advance).run(drain=True)
        clock.advance(600)

    given_back = sum(one.amount for one in payments.refunds)
    blind = kind == "blind" and mode in IN_DOUBT
    assert office.state(ref) == ("parked" if blind else SETTLES[mode])
    assert given_back <= 1_000, "never doubled"
    if not blind:
        assert given_back == (1_000 if SETTLES[mode] == "succeeded" else 0)
    assert office.verify().problems == ()
    office.close()


@pytest.mark.parametrize(("kind", "finds"), CASES)
def test_a_provider_that_never_answers_again_leaves_it_to_a_person(
    kind, finds, database_url, payments, clock
):
    office = desk(database_url, kind, finds, payments, clock)
    payments.inject(ProviderFault.DROP_ANSWER, times=1)
    ref = office.call(None, "refund", {"charge_id": "ch_1", "amount": 1_000}).ref or ""
    office.worker_of("w", sleep=clock.advance).run(drain=True)
    gone = Handler(perform=_lost, restore=_lost, find=_lost if finds else None)
    bound = office.registry.tool("refund")
    object.__setattr__(bound, "handler", gone)

    for _ in range(60):
        office.worker_of("w", sleep=clock.advance).run(drain=True)
        clock.advance(DOUBT_SECONDS_MAX / 30)

    assert office.state(ref) == "parked" and len(payments.refunds) == 1
    office.resolve(None, ref, "succeeded", principal="dana")
    assert office.state(ref) == "succeeded"
    office.close()


def _lost(*_: object) -> None:
    raise OutcomeUnknown("nobody answers")


@pytest.mark.parametrize("mode", [ProviderFault.FAIL_BEFORE_COMMIT, ProviderFault.DROP_ANSWER])
def test_taking_back_a_refund_is_one_charge_however_its_answer_is_lost(
    mode, database_url, payments, clock
):
    office = desk(database_url, "keyed", True, payments, clock)
    ref = office.call(None, "refund", {"charge_id": "ch_1", "amount": 1_000}).ref or ""
    office.worker_of("w", sleep=clock.advance).run(drain=True)
    payments.inject(mode, times=2)
    restore = office.restore(None, ref).ref or ""

    for _ in range(6):
        office.worker_of("w", sleep=clock.advance).run(drain=True)
        clock.advance(60)

    assert (office.state(restore), office.state(ref)) == ("succeeded", "restored")
    assert [one.charged_again for one in payments.refunds] == [True]
    assert payments.charges["ch_1"].refunded == 0
    office.close()
