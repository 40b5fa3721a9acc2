"""A database with a clock that is moved by hand, and somebody who looks on."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from takeback.ledger.database import Database
from tests.crash.site import Ground, Site
from tests.dispatch.clock import Clock
from tests.dispatch.office import make_cases

UNSAFE = "options=-csynchronous_commit%3Doff"
"""Only clients die here, never the server: what it has committed need not reach the disk first."""


@pytest.fixture
def ground(database_url: str) -> Iterator[Ground]:
    """What all plays of a test share."""
    url = f"{database_url}{'&' if '?' in database_url else '?'}{UNSAFE}"
    make_cases(url)
    clock = Clock(url)
    database = Database(url)
    with psycopg.connect(url, autocommit=True) as observer:
        yield Ground(url=url, clock=clock, observer=observer, database=database)
    database.close()
    clock.close()


@pytest.fixture
def new_site(ground: Ground) -> Callable[[], Site]:
    """Makes one site after the other in one database."""
    return lambda: Site(ground)
