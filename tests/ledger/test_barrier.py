"""A reader of the log never passes by what commits late, and says who keeps it waiting."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import takeback_migrations
from takeback.audit.verify import verify
from takeback.ledger.barrier import Page, read_log
from takeback.ledger.database import Database
from takeback.ledger.transaction import Tx
from takeback.model import command as commands
from takeback.model.errors import DatabaseUnavailable
from tests.database import Databases
from tests.ledger import cluster
from tests.ledger.conftest import Connect
from tests.ledger.scribe import Scribe, apply, events_of, record_many, recorded, until

pytestmark = pytest.mark.session


def read(
    url: str,
    after: int = 0,
    *,
    limit: int = 1000,
    patience: int = 0,
    pause: Callable[[], None] = lambda: None,
) -> Page:
    """One page, on a connection of its own."""
    database = Database(url)
    try:
        with database.statements() as tx:
            return read_log(tx, after, limit=limit, patience=patience, pause=pause)
    finally:
        database.close()


def ids(page: Page) -> list[Any]:
    return [event.intent_id for event in page.events]


def test_what_is_committed_is_read_in_order_and_page_by_page(
    connect: Connect, scribe: Scribe, database_url: str
):
    tx = connect()
    minted = [recorded(tx, scribe.entry()).id for _ in range(5)]
    tx.commit()
    first = read(database_url, limit=3)
    rest = read(database_url, first.safe_position, limit=3)
    assert ids(first) + ids(rest) == minted
    assert rest.safe_position == rest.events[-1].position
    assert first.held_back_by == rest.held_back_by == ()
    end = read(database_url, rest.safe_position)
    assert (ids(end), end.safe_position) == ([], rest.safe_position)


def test_an_empty_log_is_read_from_the_beginning(database_url: str):
    assert read(database_url) == Page(events=[], safe_position=0)


def test_what_commits_late_holds_back_what_came_after_it_and_is_named(
    connect: Connect, scribe: Scribe, database_url: str
):
    """marten #4977, eventuous #222."""
    slow, quick = connect(), connect()
    late = recorded(slow, scribe.entry()).id
    early = recorded(quick, scribe.entry()).id
    quick.commit()
    page = read(database_url, patience=3)
    assert (ids(page), page.safe_position) == ([], 0)
    assert page.held_back_by == (slow.info.backend_pid,)
    assert page.age_seconds > 0
    slow.commit()
    assert ids(read(database_url)) == [late, early]


def test_the_reader_goes_on_as_soon_as_who_held_it_back_is_done(
    connect: Connect, scribe: Scribe, database_url: str
):
    slow = connect()
    late = recorded(slow, scribe.entry()).id
    page = read(database_url, patience=1, pause=slow.commit)
    assert ids(page) == [late]
    assert page.held_back_by == ()


def test_the_reader_waits_only_for_those_who_were_there_when_it_looked(
    connect: Connect, scribe: Scribe, database_url: str
):
    first, second = connect(), connect()
    early = recorded(first, scribe.entry()).id
    later = []

    def meanwhile() -> None:
        later.append(recorded(second, scribe.entry()).id)
        first.commit()

    page = read(database_url, patience=1, pause=meanwhile)
    assert ids(page) == [early]
    second.commit()
    assert ids(read(database_url, page.safe_position)) == later


def test_the_reader_holds_no_lock_and_keeps_nobody_waiting(
    connect: Connect, scribe: Scribe, database_url: str
):
    slow, writer, eye = connect(), connect(), connect(autocommit=True)
    recorded(slow, scribe.entry())
    seen: list[Any] = []

    def meanwhile() -> None:
        writer.execute("SET lock_timeout = '1ms'")
        recorded(writer, scribe.entry())
        record_many(writer, [scribe.entry()])
        writer.commit()
        seen.append(
            eye.execute(
                """
                SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
                WHERE a.application_name = 'takeback' AND l.locktype IN ('advisory', 'relation')
                  AND a.datname = current_database()
                """
            ).fetchone()
        )

    page = read(database_url, patience=2, pause=meanwhile)
    assert page.held_back_by == (slow.info.backend_pid,)
    assert seen == [(0,), (0,)]


def test_a_rollback_to_a_savepoint_lets_the_reader_go_on_and_the_next_record_is_read(
    connect: Connect, scribe: Scribe, database_url: str
):
    tx, other = connect(), connect()
    before = recorded(other, scribe.entry()).id
    other.commit()
    tx.execute("SAVEPOINT one")
    recorded(tx, scribe.entry())
    assert read(database_url).held_back_by == (tx.info.backend_pid,)
    tx.execute("ROLLBACK TO SAVEPOINT one")
    page = read(database_url)
    assert ids(page) == [before]
    after = recorded(tx, scribe.entry()).id
    assert read(database_url, page.safe_position).held_back_by == (tx.info.backend_pid,)
    tx.commit()
    assert ids(read(database_url, page.safe_position)) == [after]


def test_what_is_appended_later_is_held_back_as_what_is_recorded(
    connect: Connect, scribe: Scribe, database_url: str
):
    tx, other = connect(), connect()
    minted = recorded(tx, scribe.entry())
    tx.commit()
    start = read(database_url).safe_position
    apply(tx, scribe, minted.id, commands.Cancel(by="dana", via="restore-00000000"))
    recorded(other, scribe.entry())
    other.commit()
    assert read(database_url, start).held_back_by == (tx.info.backend_pid,)
    tx.commit()
    kinds = [event.kind for event in read(database_url, start).events]
    assert kinds == ["intent.cancelled", "intent.recorded"]


def test_a_backend_that_is_killed_leaves_no_gap_and_holds_nobody_back(
    connect: Connect, scribe: Scribe, database_url: str
):
    victim, other, admin = connect(), connect(), connect(autocommit=True)
    recorded(victim, scribe.entry())
    alive = recorded(other, scribe.entry()).id
    other.commit()
    assert read(database_url).held_back_by == (victim.info.backend_pid,)
    admin.execute("SELECT pg_terminate_backend(%s, 5000)", [victim.info.backend_pid])
    assert ids(read(database_url)) == [alive]


def test_positions_that_were_drawn_in_vain_move_no_checkpoint(
    connect: Connect, scribe: Scribe, database_url: str
):
    """They may be handed out again after a crash; see the next test but two."""
    tx = connect()
    recorded(tx, scribe.entry())
    tx.commit()
    start = read(database_url).safe_position
    for _ in range(3):
        recorded(tx, scribe.entry())
        tx.rollback()
    assert read(database_url, start).safe_position == start


@contextmanager
def migrated_server(major: int | None = None, **settings: str) -> Iterator[cluster.Server]:
    with cluster.server(cluster.programs(major), **settings) as own:
        takeback_migrations.upgrade(own.url)
        yield own


@pytest.mark.parametrize("major", range(15, 19))
def test_a_transaction_that_is_prepared_while_the_reader_waits_is_waited_for(
    scribe: Scribe, major: int
):
    """It commits long after its process has left; Postgres lets it keep its virtual id."""
    with (
        migrated_server(major, max_prepared_transactions="5") as own,
        psycopg.connect(own.url) as slow,
        psycopg.connect(own.url) as quick,
    ):
        late = recorded(slow, scribe.entry()).id
        early = recorded(quick, scribe.entry()).id
        quick.commit()

        def meanwhile() -> None:
            if slow.info.transaction_status:
                slow.execute("PREPARE TRANSACTION 'late'")
                slow.rollback()

        page = read(own.url, patience=5, pause=meanwhile)
        assert (ids(page), page.held_back_by) == ([], (0,))
        slow.autocommit = True
        slow.execute("COMMIT PREPARED 'late'")
        assert ids(read(own.url)) == [late, early]


def test_a_transaction_prepared_later_by_others_keeps_nobody_waiting(scribe: Scribe):
    with (
        migrated_server(max_prepared_transactions="5") as own,
        psycopg.connect(own.url) as first,
        psycopg.connect(own.url) as second,
    ):
        early = recorded(first, scribe.entry()).id

        def meanwhile() -> None:
            if first.info.transaction_status:
                first.commit()
                read_by_other.append(read(own.url, patience=0))
                recorded(second, scribe.entry())
                second.execute("PREPARE TRANSACTION 'later'")
                second.rollback()

        read_by_other: list[Page] = []
        assert ids(read(own.url, patience=1, pause=meanwhile)) == [early]
        assert ids(read_by_other[0]) == [early]
        second.autocommit = True
        second.execute("ROLLBACK PREPARED 'later'")


def test_a_position_that_is_handed_out_again_after_a_crash_is_read(scribe: Scribe):
    """What was drawn in vain is in no commit, so a crash may take it back from the sequence."""
    drawn = 101
    with migrated_server() as own:
        with psycopg.connect(own.url) as tx:
            recorded(tx, scribe.entry())
            tx.commit()
            writer = hold_wal_writer(tx)
            for _ in range(drawn - 1):  # more than the 32 values that a sequence logs in advance
                recorded(tx, scribe.entry())
                tx.rollback()
        checkpoint = read(own.url).safe_position
        assert read(own.url, checkpoint).safe_position == checkpoint
        os.kill(writer, signal.SIGQUIT)
        own.stop(hard=True, then=lambda: os.kill(writer, signal.SIGCONT))
        own.start()
        with psycopg.connect(own.url) as tx:
            again = recorded(tx, scribe.entry()).id
            tx.commit()
            assert events_of(tx, again)[0].position <= drawn, "the crash took nothing back"
        assert ids(read(own.url, checkpoint)) == [again]


def hold_wal_writer(tx: psycopg.Connection[Any]) -> int:
    """What is not committed reaches no disk from here on."""
    row = tx.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'").fetchone()
    tx.rollback()
    assert row is not None
    os.kill(row[0], signal.SIGSTOP)
    return int(row[0])


def test_a_log_that_was_dumped_and_restored_elsewhere_goes_on_at_the_old_checkpoint(
    connect: Connect, scribe: Scribe, database_url: str, databases: Databases, tmp_path: Path
):
    """emmett #336."""
    tx = connect()
    for _ in range(3):
        recorded(tx, scribe.entry())
    tx.commit()
    page = read(database_url, limit=2)
    major = tx.info.server_version // 10000
    programs = cluster.programs(major, "pg_dump", "pg_restore").directory
    dump = tmp_path / "dump"
    subprocess.run(
        [programs / "pg_dump", "--format=custom", f"--file={dump}", database_url], check=True
    )
    with databases.empty() as restored:
        subprocess.run(
            [programs / "pg_restore", "--exit-on-error", f"--dbname={restored}", dump], check=True
        )
        rest = read(restored, page.safe_position)
        assert rest.events == read(database_url, page.safe_position).events
        assert len(rest.events) == 1
        with psycopg.connect(restored) as there:
            new = recorded(there, scribe.entry()).id
            there.commit()
            with pytest.raises(psycopg.errors.RestrictViolation):
                there.execute("DELETE FROM takeback.events")
        assert ids(read(restored, rest.safe_position)) == [new]
        database = Database(restored)
        assert verify(database).problems == ()
        database.close()


def test_a_replica_is_refused_by_name_and_still_proves_the_log(scribe: Scribe):
    with migrated_server() as own:
        with psycopg.connect(own.url) as tx:
            recorded(tx, scribe.entry())
        with cluster.standby(own) as replica:
            with pytest.raises(DatabaseUnavailable, match="replica"):
                read(replica.url)
            database = Database(replica.url)
            assert until(lambda: verify(database).intents, "the replica to follow") == 1
            assert verify(database).problems == ()
            database.close()


def test_a_role_that_sees_no_activity_is_told_the_process_all_the_same(
    connect: Connect, scribe: Scribe, database_url: str
):
    slow, reader = connect(), connect(autocommit=True)
    recorded(slow, scribe.entry())
    reader.execute("CREATE ROLE tb_blind NOLOGIN")
    try:
        reader.execute("GRANT USAGE ON SCHEMA takeback TO tb_blind")
        reader.execute("GRANT SELECT ON ALL TABLES IN SCHEMA takeback TO tb_blind")
        reader.execute("GRANT SELECT ON ALL SEQUENCES IN SCHEMA takeback TO tb_blind")
        reader.execute("SET ROLE tb_blind")
        tx = Tx(reader, reader.cursor, None, owned=True)
        page = read_log(tx, 0, limit=10, patience=0, pause=lambda: None)
        assert page.held_back_by == (slow.info.backend_pid,)
        assert page.age_seconds == 0
    finally:
        reader.execute("RESET ROLE")
        reader.execute("DROP OWNED BY tb_blind")
        reader.execute("DROP ROLE tb_blind")
