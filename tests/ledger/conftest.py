"""What the tests of the ledger share: connections that are closed, and one who writes."""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from tests.ledger.scribe import Scribe

Connect = Callable[..., psycopg.Connection[Any]]


@pytest.fixture
def connect(database_url: str) -> Iterator[Connect]:
    """Makes connections to the clean database; what is left open is rolled back at the end."""
    with ExitStack() as stack:

        def one(**options: Any) -> psycopg.Connection[Any]:
            connection = psycopg.connect(options.pop("url", database_url), **options)
            stack.callback(connection.close)
            return connection

        yield one


@pytest.fixture
def scribe(rng: random.Random) -> Scribe:
    return Scribe(rng)
