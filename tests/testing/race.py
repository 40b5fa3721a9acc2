"""What a process of a race does; in a module of its own, so that a fresh process can import it."""

from pathlib import Path

from takeback.testing import (
    Charge,
    FakeFiles,
    FakePayments,
    ProviderBusy,
    ProviderRefused,
)

CHARGES = (
    Charge(id="ch_1", amount=12900, currency="EUR"),
    Charge(id="ch_2", amount=90000, currency="EUR"),
)


def payments(directory: Path) -> FakePayments:
    return FakePayments(directory, charges=CHARGES)


def files(directory: Path) -> FakeFiles:
    return FakeFiles(directory, files={"a.txt": b"one"})


def refund(directory: Path, key: str, amount: int) -> str:
    """What became of one refund, asked for until it is known."""
    provider = payments(directory)
    while True:
        try:
            return provider.refund("ch_1", amount, "EUR", key=key).id
        except ProviderBusy:
            continue
        except ProviderRefused as exc:
            return exc.code


def delete(directory: Path, key: str) -> str:
    provider = files(directory)
    while True:
        try:
            return provider.delete("a.txt", key=key)
        except ProviderBusy:
            continue
        except ProviderRefused as exc:
            return exc.code


def refund_slowly(directory: Path, key: str) -> None:
    payments(directory).refund("ch_1", 1000, "EUR", key=key)
