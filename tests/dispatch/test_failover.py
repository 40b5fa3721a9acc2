"""Two servers in one URL: a worker finds the one that takes writes, with nobody's help."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from takeback.ledger.database import Database
from takeback.model.errors import DatabaseUnavailable
from tests import database
from tests.dispatch.office import Office, World, make_cases
from tests.dispatch.shift import Door, Shift, eventually
from tests.ledger import cluster

pytestmark = [pytest.mark.chaos, pytest.mark.slow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A primary and its replica, and the one URL of both."""

    first: cluster.Server
    second: cluster.Server

    @property
    def url(self) -> str:
        """As libpq takes it, with the hosts in one list."""
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in (self.first, self.second))
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def promote_second(self) -> None:
        """The replica is the primary from now on."""
        with psycopg.connect(self.second.url, autocommit=True) as admin:
            assert admin.execute("SELECT pg_promote()").fetchone() == (True,)

    def has_followed(self) -> bool:
        """Whether the replica has all that the primary has."""
        with psycopg.connect(self.first.url) as there, psycopg.connect(self.second.url) as here:
            (position,) = there.execute("SELECT pg_current_wal_lsn()").fetchone() or (None,)
            query = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
            return here.execute(query, [position]).fetchone() == (True,)


@pytest.fixture
def pair() -> Iterator[Pair]:
    found = cluster.programs(None, "pg_basebackup")
    ports = [{"port": cluster.free_port(), "listen_addresses": "127.0.0.1"} for _ in range(2)]
    with cluster.server(found, **ports[0]) as first:
        database.migrate(first.url)
        make_cases(first.url)
        with cluster.standby(first, **ports[1]) as second:
            yield Pair(first=first, second=second)


@pytest.fixture
def office(pair: Pair, world: World) -> Iterator[Office]:
    office = Office(pair.url, world)
    yield office
    office.close()


def test_after_a_failover_a_worker_goes_on_at_the_other_server(pair, office, world, caplog):
    """The primary is stopped hard while a handler runs, and its replica takes its place."""
    door = Door()

    def behind(called: Any) -> Any:
        if called.to == "dana":
            door.wait()
        return world.arrive(called)

    world.on["send_letter"] = behind
    with Shift(office):
        ref = office.call(None, "send_letter", {"to": "dana"}).ref
        door.knocked()
        eventually(pair.has_followed, "the replica has all of it")
        pair.first.stop(hard=True)
        door.open()
        eventually(lambda: "worker_waits" in caplog.text, "it waits")
        pair.promote_second()
        eventually(lambda: office.state(ref) == "succeeded", "its outcome is at the other server")
        later = office.call(None, "send_letter", {"to": "robin"}).ref
        eventually(lambda: office.state(later) == "succeeded", "it goes on there")

    assert (world.called("dana"), world.called("robin")) == (1, 1)
    assert office.verify().problems == ()
    assert office.migrate() == (office.health().revision, office.health().revision)
    with psycopg.connect(pair.second.url) as there:
        assert there.execute("SELECT count(*) FROM takeback.intents").fetchone() == (2,)


def test_a_server_that_takes_no_writes_any_more_is_left_while_the_worker_is_idle(
    pair, office, world, caplog
):
    """The old primary lives on, read-only: looking there for work, it would look for ever."""
    with Shift(office):
        first = office.call(None, "send_letter", {"to": "first"}).ref
        eventually(lambda: office.state(first) == "succeeded", "it works at the first server")
        eventually(pair.has_followed, "the replica has all of it")
        pair.promote_second()
        fence_off(pair.first)
        other = Office(pair.second.url, world)
        ref = other.call(None, "send_letter", {"to": "dana"}).ref
        eventually(lambda: other.state(ref) == "succeeded", "it works at the second server")
        other.close()

    assert world.called("dana") == 1


def fence_off(one: cluster.Server) -> None:
    """As an operator or a failover manager does with a primary that is replaced."""
    with psycopg.connect(one.url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        admin.execute("SELECT pg_reload_conf()")
        shown = "SHOW default_transaction_read_only"
        eventually(lambda: admin.execute(shown).fetchone() == ("on",), "it is in force")


def test_a_write_that_a_server_refuses_is_unavailable_and_its_connections_are_left(pair):
    """SQLSTATE 25006 of a transaction of our own, behind a pooler that hides what the server says
    of itself as well: the next try is at the other server."""
    with closing(Database(pair.url)) as found:
        with found.transaction() as tx:
            pid = tx.raw.info.backend_pid
            assert tx.raw.info.port == int(pair.first.port)
        eventually(pair.has_followed, "the replica has all of it")
        pair.promote_second()
        fence_off(pair.first)

        with pytest.raises(DatabaseUnavailable, match="takes no writes"):
            write(found, pid=pid)
        with found.transaction() as tx:
            assert tx.raw.info.port == int(pair.second.port)
            tx.session.execute(INSERT)


def write(found: Database, *, pid: int) -> None:
    """On the connection that was there before."""
    with found.transaction() as tx:
        assert tx.raw.info.backend_pid == pid
        tx.session.execute(INSERT)


INSERT = text("INSERT INTO public.cases (name) VALUES ('a')")


def test_a_replica_is_no_place_for_a_worker(pair, world):
    """Its URL is wrong: it says so, and waits, since the replica may be the primary tomorrow."""
    office = Office(pair.second.url, world)
    eventually(pair.has_followed, "the replica has all of it")
    with Shift(office) as shift:
        eventually(lambda: shift.worker._troubles.count > 2, "it waits")
        pair.promote_second()
        ref = None

        def called() -> bool:
            nonlocal ref
            ref = office.call(None, "send_letter", {"to": "dana"}).ref
            return ref is not None

        eventually(called, "it may be called")
        eventually(lambda: office.state(ref) == "succeeded", "it works there")
    office.close()
