"""Migrating somebody's database: once, whoever asks, completely or not at all, and told plainly."""

import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql
from sqlalchemy.exc import OperationalError

import takeback_migrations
from takeback.model.errors import DatabaseUnavailable, InvalidSettings, NoTransaction
from tests.database import create, drop, with_database
from tests.ledger import cluster
from tests.ledger.scribe import (
    PATIENCE_SECONDS,
    Scribe,
    events_of,
    is_waiting,
    recorded,
    until,
)

PROCESSES = 4
OBJECTS = """
SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('takeback')
"""


def value(url: str, query: str) -> Any:
    with closing(psycopg.connect(url, autocommit=True)) as eye:
        row = eye.execute(query.encode()).fetchone()
    return row and row[0]


def joined(url: str, **options: str) -> str:
    said = quote(" ".join(f"-c {name}={setting}" for name, setting in options.items()), safe="")
    return f"{url}{'&' if '?' in url else '?'}options={said}"


def test_the_first_migration_brings_all_and_the_next_nothing(empty_database_url: str):
    assert takeback_migrations.upgrade(empty_database_url) == (
        None,
        takeback_migrations.latest_revision(),
    )
    before = value(empty_database_url, OBJECTS)
    revision = takeback_migrations.latest_revision()
    assert takeback_migrations.upgrade(empty_database_url) == (revision, revision)
    assert value(empty_database_url, OBJECTS) == before > 0


def test_nothing_lies_outside_of_our_own_schema(empty_database_url: str):
    outside = """
        SELECT array_agg(relname) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid >= 16384 AND nspname NOT IN ('takeback', 'pg_toast')
    """
    before = value(empty_database_url, outside)
    takeback_migrations.upgrade(empty_database_url)
    assert value(empty_database_url, outside) == before
    assert value(empty_database_url, "SELECT to_regclass('public.alembic_version')") is None
    assert value(empty_database_url, "SELECT to_regclass('takeback.alembic_version')")


def test_four_processes_at_once_make_one_schema(empty_database_url: str):
    """All are held until all are there, then let go: one begins, and what is left is done once."""
    code = f"import takeback_migrations as m; print(m.upgrade({empty_database_url!r}))"
    with closing(psycopg.connect(empty_database_url, autocommit=True)) as gate:
        gate.execute("SELECT pg_advisory_lock(31418, 2)")
        started = [
            subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
            for _ in range(PROCESSES)
        ]
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        until(lambda: value(empty_database_url, waiting) == PROCESSES, "all to be there")
        gate.execute("SELECT pg_advisory_unlock(31418, 2)")
        said = [process.communicate(timeout=PATIENCE_SECONDS)[0].strip() for process in started]
    head = takeback_migrations.latest_revision()
    assert [process.returncode for process in started] == [0] * PROCESSES
    assert min(said, key=len) == f"(None, {head!r})"
    whole = [f"({found!r}, {head!r})" for found in ("0003", head)]
    assert all(one in whole for one in sorted(said, key=len)[1:])
    assert said.count(whole[0]) <= 1


def test_ddl_behind_somebodys_lock_gives_up_and_changes_nothing(empty_database_url: str):
    """Whatever comes after waiting DDL would wait behind it: an application at a standstill."""
    with psycopg.connect(empty_database_url) as holder:
        holder.execute("CREATE SCHEMA takeback")
        with pytest.raises(DatabaseUnavailable, match=r"holds a lock.*nothing was changed"):
            takeback_migrations.upgrade(empty_database_url, lock_seconds_max=0.05)
        holder.rollback()
    assert value(empty_database_url, "SELECT to_regnamespace('takeback')") is None
    assert takeback_migrations.upgrade(empty_database_url)[0] is None


def test_the_wait_for_another_migrator_is_longer_than_that_for_a_lock(empty_database_url: str):
    with closing(psycopg.connect(empty_database_url, autocommit=True)) as other:
        other.execute("SELECT pg_advisory_lock(31418, 2)")
        with ThreadPoolExecutor(1) as beside:
            work = beside.submit(
                takeback_migrations.upgrade, empty_database_url, lock_seconds_max=0.001
            )
            pid = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            waiting = until(lambda: value(empty_database_url, pid), "the second to wait")
            threading.Event().wait(0.05)
            assert is_waiting(empty_database_url, waiting)
            other.execute("SELECT pg_advisory_unlock(31418, 2)")
            assert work.result(PATIENCE_SECONDS)[0] is None


@pytest.fixture
def nobody(empty_database_url: str) -> Iterator[str]:
    """The address of the empty database for a role that may make nothing in it."""
    role = sql.Identifier(f"tb_nobody_{uuid.uuid4().hex[:8]}")
    with closing(psycopg.connect(empty_database_url, autocommit=True)) as admin:
        admin.execute(sql.SQL("CREATE ROLE {}").format(role))
        yield joined(empty_database_url, role=role.as_string(admin).strip('"'))
        admin.execute(sql.SQL("DROP OWNED BY {}").format(role))
        admin.execute(sql.SQL("DROP ROLE {}").format(role))


def test_a_role_without_the_right_to_create_is_told_what_it_needs(
    empty_database_url: str, nobody: str
):
    with pytest.raises(InvalidSettings) as refused:
        takeback_migrations.upgrade(nobody)
    assert "permission denied for database" in str(refused.value)
    assert "CREATE on the database" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert value(empty_database_url, OBJECTS) == 0


def test_a_role_that_may_only_use_the_schema_is_told_what_it_needs(
    empty_database_url: str, nobody: str
):
    with closing(psycopg.connect(empty_database_url, autocommit=True)) as admin:
        admin.execute("CREATE SCHEMA takeback")
        admin.execute("GRANT USAGE ON SCHEMA takeback TO PUBLIC")
    with pytest.raises(InvalidSettings, match="permission denied for schema takeback"):
        takeback_migrations.upgrade(nobody)


def test_a_read_only_database_is_refused_by_name(empty_database_url: str):
    url = joined(empty_database_url, default_transaction_read_only="on")
    with pytest.raises(NoTransaction, match="read-only"):
        takeback_migrations.upgrade(url)


def test_a_database_of_a_later_release_is_refused_and_left_alone(empty_database_url: str):
    takeback_migrations.upgrade(empty_database_url)
    with closing(psycopg.connect(empty_database_url, autocommit=True)) as admin:
        admin.execute("UPDATE takeback.alembic_version SET version_num = '9999'")
    with pytest.raises(InvalidSettings, match=r"'9999'.*latest is '\d{4}'.*later"):
        takeback_migrations.upgrade(empty_database_url)
    version = "SELECT version_num FROM takeback.alembic_version"
    assert value(empty_database_url, version) == "9999"


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_can_not_hold_every_text_is_refused_by_name(server_url: str, encoding: str):
    name = f"tb_{encoding.lower()}_{uuid.uuid4().hex[:8]}"
    with closing(psycopg.connect(server_url, autocommit=True)) as admin:
        admin.execute(
            sql.SQL("CREATE DATABASE {} ENCODING {} LOCALE 'C' TEMPLATE template0").format(
                sql.Identifier(name), sql.Literal(encoding)
            )
        )
        try:
            with pytest.raises(InvalidSettings, match=f"'{encoding}'.*UTF8"):
                takeback_migrations.upgrade(with_database(server_url, name))
        finally:
            drop(admin, name)


def test_a_database_that_is_not_there_is_an_error_of_the_driver(server_url: str):
    with pytest.raises(OperationalError, match="does not exist"):
        takeback_migrations.upgrade(with_database(server_url, "tb_never_made"))


def test_hostile_settings_of_the_role_change_nothing_of_what_is_made(
    server_url: str, empty_database_url: str
):
    name = f"tb_hostile_{uuid.uuid4().hex[:8]}"
    with closing(psycopg.connect(server_url, autocommit=True)) as admin:
        create(admin, name, template="template1")
    try:
        hostile = with_database(server_url, name)
        options = {
            "search_path": "''",
            "standard_conforming_strings": "off",
            "datestyle": "German",
            "timezone": "Pacific/Auckland",
            "lock_timeout": "1",
            "check_function_bodies": "off",
        }
        takeback_migrations.upgrade(joined(hostile, **options))
        takeback_migrations.upgrade(empty_database_url)
        made = """
            SELECT string_agg(pg_get_functiondef(oid), ';' ORDER BY proname) FROM pg_proc
            WHERE pronamespace = 'takeback'::regnamespace
        """
        assert value(hostile, made) == value(empty_database_url, made)
    finally:
        with closing(psycopg.connect(server_url, autocommit=True)) as admin:
            drop(admin, name)


@pytest.mark.parametrize("major", range(15, 19))
def test_every_supported_postgres_takes_the_migration_and_a_recording(major: int, scribe: Scribe):
    with cluster.server(cluster.programs(major)) as own:
        takeback_migrations.upgrade(own.url)
        with psycopg.connect(own.url) as tx:
            minted = recorded(tx, scribe.entry())
            tx.commit()
            assert tx.info.server_version // 10000 == major
            assert [one.version for one in events_of(tx, minted.id)] == [1]
