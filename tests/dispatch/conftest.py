"""A post office with a clock that is moved by hand."""

import logging
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


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> None:
    """What a worker says in passing is heard, too."""
    caplog.set_level(logging.INFO, logger="takeback")


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
