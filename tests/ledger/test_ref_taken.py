"""A ref that chance has given away already is drawn anew, and nobody hears of it."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import psycopg
import pytest

from takeback import Call, Settings, Takeback
from takeback.model.ref import ENTROPY_BYTES
from takeback_shop import handlers
from takeback_shop.catalog import CATALOG

Arguments = dict[str, str]


class Dice:
    """Falls on one ref as often as it is told, and then as it likes."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.same = 0

    def __call__(self, count: int) -> bytes:
        if count == ENTROPY_BYTES and self.same > 0:
            self.same -= 1
            return bytes(ENTROPY_BYTES)
        return self.rng.randbytes(count)


@pytest.fixture
def dice(rng: random.Random) -> Dice:
    return Dice(rng)


@pytest.fixture
def app(database_url: str, dice: Dice) -> Iterator[Takeback]:
    app = Takeback(CATALOG, handlers=handlers, settings=Settings(database_url=database_url))
    vars(app)["context"] = replace(app.context, entropy=dice)
    yield app
    app.close()


def letter(number: int) -> Arguments:
    return {"to": f"dana{number}@example.com", "template": "apology", "order_id": "O-1"}


def refs(url: str) -> set[str]:
    with psycopg.connect(url) as tx:
        return {ref for (ref,) in tx.execute("SELECT ref FROM takeback.intents")}


Say = Callable[[Takeback, str], list[str]]


def one_by_one(app: Takeback, _: str) -> list[str]:
    return [app.call(None, "send_customer_email", letter(n)).ref or "" for n in range(3)]


def in_one_transaction(app: Takeback, url: str) -> list[str]:
    with psycopg.connect(url) as tx:
        return [app.call(tx, "send_customer_email", letter(n)).ref or "" for n in range(3)]


def in_a_batch(app: Takeback, _: str) -> list[str]:
    calls = [Call(tool="send_customer_email", arguments=letter(n)) for n in range(3)]
    return [envelope.ref or "" for envelope in app.call_many(None, calls)]


@pytest.mark.parametrize("say", [one_by_one, in_one_transaction, in_a_batch])
def test_calls_that_draw_one_ref_are_all_recorded_each_under_its_own(
    app: Takeback, dice: Dice, database_url: str, say: Say
):
    dice.same = 3
    given = say(app, database_url)
    assert len(set(given)) == 3
    assert refs(database_url) == set(given)
    assert app.verify().problems == ()


def test_a_repeat_is_found_by_its_key_whatever_ref_it_draws(
    app: Takeback, dice: Dice, database_url: str
):
    first = app.call(None, "send_customer_email", letter(1))
    dice.same = 1
    other = app.call(None, "send_customer_email", letter(2))
    dice.same = 1
    again = app.call(None, "send_customer_email", letter(1))
    assert (again.ref, again["replayed"]) == (first.ref, True)
    assert refs(database_url) == {first.ref, other.ref}
