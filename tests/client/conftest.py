"""One database for the process, migrated once with the tables of the desk, put back each time."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest

import takeback_migrations
from tests import database
from tests.client.caller import CALLERS, Caller
from tests.client.desk import TABLES, Desk
from tests.client.player import Players


@pytest.fixture(scope="session")
def desk_database(databases: database.Databases) -> Iterator[tuple[str, database.Snapshot]]:
    """Its address, and what it looks like when nobody has used it yet."""
    with databases.empty() as url:
        takeback_migrations.upgrade(url)
        with psycopg.connect(url) as tx:
            tx.execute(TABLES)
        with psycopg.connect(url) as tx:
            snapshot = database.look(tx)
        yield url, snapshot


@pytest.fixture(scope="session")
def process_players(desk_database: tuple[str, database.Snapshot]) -> Iterator[Players]:
    """Started once: between tests they lose their connections, and find that out by themselves."""
    players = Players(desk_database[0])
    yield players
    players.leave()


@pytest.fixture
def players(process_players: Players, desk: Desk) -> Players:
    """Four processes that call tools at the desk."""
    return process_players


@pytest.fixture
def desk_url(desk_database: tuple[str, database.Snapshot]) -> str:
    """The address of the desk's database, as good as new."""
    url, snapshot = desk_database
    assert database.put_back(url, snapshot), "a test has changed the schema"
    return url


@pytest.fixture
def desk(desk_url: str) -> Iterator[Desk]:
    """An app with a world of its own."""
    desk = Desk(desk_url)
    yield desk
    desk.close()


@pytest.fixture
def callers(desk: Desk) -> Iterator[Callable[[str], Caller]]:
    """Makes callers by name; whatever is still open is closed at the end."""
    with ExitStack() as leaving:

        def make(name: str = "psycopg") -> Caller:
            caller = CALLERS[name](desk.url)
            leaving.callback(caller.close)
            return caller

        yield make


@pytest.fixture(params=list(CALLERS))
def caller(request: pytest.FixtureRequest, callers: Callable[[str], Caller]) -> Caller:
    """Each of the connections that a call may join."""
    return callers(request.param)


@pytest.fixture(params=["session", "connection", "psycopg", "async_session"])
def joined(request: pytest.FixtureRequest, callers: Callable[[str], Caller]) -> Caller:
    """One caller of each kind of connection."""
    return callers(request.param)


@pytest.fixture(params=["session", "psycopg"])
def holder(request: pytest.FixtureRequest, callers: Callable[[str], Caller]) -> Caller:
    """A caller with a session of its own, and one whose handlers are lent one."""
    return callers(request.param)
