"""Behind pgbouncer in transaction mode: each transaction may be on another server connection."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest

from takeback.ledger.database import Database
from tests import services
from tests.dispatch.clock import Clock
from tests.dispatch.office import Office, World, make_cases
from tests.pooler import pooler, through

pytestmark = [pytest.mark.chaos, pytest.mark.session]


LOCKS = """
SELECT count(*) FROM pg_locks JOIN pg_database AS d ON d.oid = database
WHERE locktype = 'advisory' AND d.datname = current_database()
"""
AGAIN_MAX = 20
LEFT = """
SELECT (SELECT count(*) FROM pg_prepared_statements), current_setting('takeback.tenant', true)
"""


@pytest.fixture(scope="module")
def small(databases: Any) -> Iterator[str]:
    """A pooler with two server connections for everybody."""
    with pooler(services.require("pgbouncer"), databases.server_url, pool_size=2) as url:
        yield url


@pytest.fixture
def offices(small: str, database_url: str, world: World, clock: Clock) -> Iterator[list[Office]]:
    """Four processes behind it: more than it has connections."""
    make_cases(database_url)
    url = through(small, database_url)
    found = [Office(url, world, pause=clock.advance) for _ in range(4)]
    yield found
    for office in found:
        office.close()


def patiently(office: Office, tx: Any, tool: str, to: str) -> Any:
    """As a caller does: while the same call is being made next door, it is made again."""
    answer = office.call(tx, tool, {"to": to})
    for _ in range(AGAIN_MAX):
        if answer["status"] != "in_progress":
            break
        answer = office.call(tx, tool, {"to": to})
    return answer


def test_callers_and_workers_share_two_connections_and_leave_nothing_on_them(
    offices, small, database_url, world, clock
):
    """authentik #23876: session locks leaked behind a pooler. Four callers in transactions of their
    own and of the engine's, four workers, restores: no lock, setting or prepared statement stays.
    """
    url = through(small, database_url)

    def call(number: int) -> list[Any]:
        office = offices[number]
        answers = [patiently(office, None, "pay", f"own-{number}-{n}") for n in range(5)]
        with psycopg.connect(url, prepare_threshold=None) as caller:
            for n in range(8):
                to = f"shared-{n}" if n % 2 else f"callers-{number}-{n}"
                answers.append(patiently(office, caller, "send_letter", to))
                answers.append(patiently(office, caller, "file_case", f"{number}-{n}"))
                caller.commit()
        return answers

    with ThreadPoolExecutor(4) as threads:
        answers = [answer for found in threads.map(call, range(4)) for answer in found]
        assert [a for a in answers if a.ref is None] == []
        refs = {a.ref for a in answers}
        list(threads.map(lambda o: o.worker_of("w", sleep=clock.advance).run(drain=True), offices))

    assert {offices[0].state(ref) for ref in refs} == {"succeeded"}
    assert len(world.calls) == 4 * 5 + 4 * 4 + 4, "the shared letters are one each"
    paid = next(ref for ref in refs if ref.startswith("pay"))
    offices[1].restore(None, paid)
    offices[2].worker_of("w", sleep=clock.advance).run(drain=True)
    assert offices[3].state(paid) == "restored"
    assert offices[0].verify().problems == ()
    with psycopg.connect(database_url) as look:
        assert look.execute(LOCKS).fetchone() == (0,)
    with psycopg.connect(url, prepare_threshold=None) as next_client:
        for _ in range(4):
            assert next_client.execute(LEFT).fetchone() in ((0, None), (0, ""))
            next_client.commit()


def test_the_schema_is_brought_up_to_date_through_it(offices):
    assert offices[0].migrate()[1] == offices[0].health().revision


def test_a_freeze_and_a_limit_hold_behind_it(offices, clock):
    """Both rest on advisory locks of transactions."""
    first, second, *_ = offices
    ref = first.call(None, "send_letter", {"to": "dana"}).ref
    first.freeze(reason="a look", principal="dana", everything=True)
    assert second.worker_of("w")._dispatcher.run_once(10).count == 0
    first.thaw(reason="done", principal="dana", everything=True)
    clock.advance(5)
    second.worker_of("w", sleep=clock.advance).run(drain=True)
    assert first.state(ref) == "succeeded"


def test_a_pooler_spells_the_encoding_as_its_client_does(small, database_url):
    """It answers with what the client asked for; the server with the one name that it has."""
    url = through(small, database_url)
    with closing(Database(url)) as found, found.transaction() as tx:
        assert tx.raw.pgconn.parameter_status(b"client_encoding").lower() == b"utf8"
