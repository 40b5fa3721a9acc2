"""A payment provider that keeps keys, has a ceiling per charge, and fails on request.

    charge ──refund──> refunded, up to the amount ──charge_again──> as before that refund

Amounts are integers in minor units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from takeback.model.handler import Absent, Affected, Attempt, Handler, Original, Performed
from takeback.testing.journal import Entry
from takeback.testing.provider import (
    Provider,
    ProviderBusy,
    ProviderDown,
    ProviderFault,
    ProviderRefused,
    told_as_outcomes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """Money taken; ``refunded`` is how much of ``amount`` was given back."""

    id: str
    amount: int
    currency: str
    refunded: int = 0

    @property
    def refundable(self) -> int:
        """What can still be given back."""
        return self.amount - self.refunded


@dataclass(frozen=True, slots=True, kw_only=True)
class Refund:
    """Money given back; ``charged_again`` says that it was taken once more."""

    id: str
    charge_id: str
    amount: int
    currency: str
    charged_again: bool = False


class FakePayments:
    """The provider in ``directory``, with ``charges`` in it from the start.

    Every process that opens the directory names the same charges. Methods raise ProviderError.
    """

    def __init__(
        self,
        directory: Path | Callable[[], Path],
        *,
        charges: Sequence[Charge] = (),
        key_ttl: timedelta = timedelta(hours=24),
    ) -> None:
        self._charges = {charge.id: charge for charge in charges}
        self._provider = Provider(directory, "payments", key_ttl=key_ttl)

    def refund(self, charge_id: str, amount: int, currency: str, *, key: str) -> Refund:
        """Gives ``amount`` of a charge back, once per ``key``."""
        asked = {"charge_id": charge_id, "amount": amount, "currency": currency}

        def decide(entries: Sequence[Entry]) -> Mapping[str, Any]:
            charge = self._fold(entries)[0].get(charge_id)
            if charge is None:
                raise ProviderRefused("no_such_charge", f"There is no charge {charge_id!r}.")
            _check(charge, amount, currency)
            return {**asked, "refund_id": f"re_{len(entries)}"}

        return _refund(self._provider.request(key, "refund", asked, decide))

    def charge_again(self, refund_id: str, *, key: str) -> Refund:
        """Takes back what a refund gave, once per ``key`` and once per refund."""

        def decide(entries: Sequence[Entry]) -> Mapping[str, Any]:
            refund = self._fold(entries)[1].get(refund_id)
            if refund is None:
                raise ProviderRefused("no_such_refund", f"There is no refund {refund_id!r}.")
            if refund.charged_again:
                raise ProviderRefused(
                    "already_charged_again", f"Refund {refund_id!r} was charged again before."
                )
            return {
                "refund_id": refund.id,
                "charge_id": refund.charge_id,
                "amount": refund.amount,
                "currency": refund.currency,
                "charged_again": True,
            }

        asked = {"refund_id": refund_id}
        return _refund(self._provider.request(key, "charge_again", asked, decide))

    def look_up(self, key: str) -> Refund | None:
        """What was done under ``key``; None when nothing was."""
        answer = self._provider.look_up(key)
        return None if answer is None else _refund(answer)

    @property
    def charges(self) -> dict[str, Charge]:
        """Every charge by its id, as it is now."""
        return self._fold(self._provider.entries())[0]

    @property
    def refunds(self) -> list[Refund]:
        """Every refund that was carried out, in order, whoever heard of it."""
        return list(self._fold(self._provider.entries())[1].values())

    @property
    def requests(self) -> list[str]:
        """The key of each request that has arrived, in order, replays and failures included."""
        return [one["key"] for one in self._provider.entries() if one["event"] == "arrived"]

    def inject(self, fault: ProviderFault, *, times: int = 1, seconds: float = 30.0) -> None:
        """Makes ``fault`` happen to the next ``times`` requests; SLOW takes ``seconds``."""
        self._provider.inject(fault, times=times, seconds=seconds)

    def advance(self, span: timedelta) -> None:
        """Moves the provider's clock on; it stands still otherwise."""
        self._provider.advance(span)

    def release(self) -> None:
        """Lets the requests go on that are slow at this moment."""
        self._provider.release()

    def wait_for_slow(self, count: int = 1, *, seconds_max: float = 10.0) -> bool:
        """Whether ``count`` requests in all have become slow, waiting up to ``seconds_max``."""
        return self._provider.wait_for_slow(count, seconds_max=seconds_max)

    def _fold(self, entries: Sequence[Entry]) -> tuple[dict[str, Charge], dict[str, Refund]]:
        charges, refunds = dict(self._charges), dict[str, Refund]()
        for entry in entries:
            if entry["event"] == "committed":
                refund = _refund(entry["answer"])
                charge = charges[refund.charge_id]
                given = -refund.amount if refund.charged_again else refund.amount
                charges[charge.id] = replace(charge, refunded=charge.refunded + given)
                refunds[refund.id] = refund
        return charges, refunds


def _check(charge: Charge, amount: int, currency: str) -> None:
    if amount < 1:
        raise ProviderRefused("invalid_amount", "A refund is 1 minor unit or more.")
    if currency != charge.currency:
        raise ProviderRefused(
            "other_currency",
            f"Charge {charge.id!r} is in {charge.currency}.",
            alternatives=[{"currency": charge.currency}],
        )
    if amount > charge.refundable:
        raise ProviderRefused(
            "over_ceiling",
            f"Of charge {charge.id!r} only {charge.refundable} {currency} (minor units) can "
            "still be refunded.",
            alternatives=[{"amount": charge.refundable, "currency": currency}],
        )


def _refund(answer: Mapping[str, Any]) -> Refund:
    return Refund(
        id=answer["refund_id"],
        charge_id=answer["charge_id"],
        amount=answer["amount"],
        currency=answer["currency"],
        charged_again=answer.get("charged_again", False),
    )


def refund_handler(payments: FakePayments) -> Handler:
    """A handler that refunds; its arguments have charge_id, amount and currency."""

    def perform(arguments: Any, attempt: Attempt) -> Performed:
        with told_as_outcomes():
            refund = payments.refund(
                arguments.charge_id,
                arguments.amount,
                arguments.currency,
                key=attempt.provider_key,
            )
        return _performed(refund)

    def find(arguments: Any, attempt: Attempt) -> Performed | Absent | None:
        try:
            refund = payments.look_up(attempt.provider_key)
        except (ProviderDown, ProviderBusy):
            return None
        return Absent() if refund is None else _performed(refund)

    def restore(original: Original, attempt: Attempt) -> Performed:
        with told_as_outcomes():
            refund = payments.charge_again(original.result["refund_id"], key=attempt.provider_key)
        return _performed(refund)

    return Handler(perform=perform, find=find, restore=restore)


def _performed(refund: Refund) -> Performed:
    return Performed(
        result={
            "refund_id": refund.id,
            "charge_id": refund.charge_id,
            "amount": refund.amount,
            "currency": refund.currency,
        },
        affected=[Affected(kind="charge", id=refund.charge_id)],
    )
