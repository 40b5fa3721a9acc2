"""A post office with a clock that is moved by hand."""

from collections.abc import Iterator

import pytest

from tests.dispatch.clock import Clock
from tests.dispatch.office import Office, World, make_cases


@pytest.fixture
def clock(database_url: str) -> Iterator[Clock]:
    """The database's clock."""
    clock = Clock(database_url)
    yield clock
    clock.close()


@pytest.fixture
def world() -> World:
    """Everything outside."""
    return World()


@pytest.fixture
def office(database_url: str, world: World, clock: Clock) -> Iterator[Office]:
    """The office; whoever waits in it moves the clock instead."""
    make_cases(database_url)
    office = Office(database_url, world, pause=clock.advance)
    yield office
    office.close()
