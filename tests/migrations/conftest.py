"""What the tests of the migrations share with those of the ledger."""

import random

import pytest

from tests.ledger.scribe import Scribe


@pytest.fixture
def scribe(rng: random.Random) -> Scribe:
    return Scribe(rng)
