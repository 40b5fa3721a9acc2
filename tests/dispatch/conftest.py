"""A post office with a clock that is moved by hand."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.dispatch.clock import Clock
from tests.dispatch.office import Office, World, make_cases
from tests.dispatch.post import Post


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


@pytest.fixture
def post(database_url: str, world: World, clock: Clock) -> Iterator[Callable[..., Post]]:
    """Opens post offices, whose one connector has these bounds; closes them all in the end."""
    opened: list[Post] = []

    def open_(**bounds: Any) -> Post:
        opened.append(Post(database_url, world, **bounds))
        return opened[-1]

    yield open_
    for one in opened:
        one.close()
