"""The tables are what is declared, and keep the promises that are made of every table."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

import takeback_migrations
from takeback.ledger.database import sqlalchemy_url
from takeback.ledger.table import METADATA
from takeback.model.intent import State
from tests.database import Databases

# What is compared: whole definitions, as the server itself writes them.
COLUMNS = """
SELECT a.attrelid::regclass::text, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       a.attidentity, c.collname, pg_get_expr(d.adbin, d.adrelid)
FROM pg_attribute AS a
JOIN pg_class AS r ON r.oid = a.attrelid
LEFT JOIN pg_collation AS c ON c.oid = a.attcollation
LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE r.relnamespace = 'takeback'::regnamespace AND r.relkind IN ('r', 'S') AND a.attnum > 0
  AND r.relname <> 'alembic_version'
"""
CONSTRAINTS = """
SELECT c.conrelid::regclass::text, c.contypid::regtype::text, c.conname, pg_get_constraintdef(c.oid)
FROM pg_constraint AS c
WHERE c.connamespace = 'takeback'::regnamespace AND c.contype IN ('p', 'u', 'c', 'f', 'x')
  AND c.conname <> 'alembic_version_pkc'
"""
INDEXES = """
SELECT indexname, indexdef FROM pg_indexes
WHERE schemaname = 'takeback' AND tablename <> 'alembic_version'
"""
DOMAINS = """
SELECT t.typname, format_type(t.typbasetype, t.typtypmod), c.collname, t.typnotnull
FROM pg_type AS t LEFT JOIN pg_collation AS c ON c.oid = t.typcollation
WHERE t.typnamespace = 'takeback'::regnamespace AND t.typtype = 'd'
"""


@pytest.fixture(scope="module")
def migrated(databases: Databases) -> Iterator[str]:
    with databases.empty() as url:
        takeback_migrations.upgrade(url)
        yield url


@pytest.fixture(scope="module")
def declared(databases: Databases) -> Iterator[str]:
    """The tables as ``takeback.ledger.table`` declares them, made by SQLAlchemy."""
    with databases.empty() as url:
        engine = create_engine(sqlalchemy_url(url), poolclass=NullPool)
        with engine.begin() as connection:
            connection.execute(text("CREATE SCHEMA takeback"))
            METADATA.create_all(connection)
        yield url


def rows(url: str, query: str) -> set[Any]:
    with psycopg.connect(url) as tx:
        return set(tx.execute(query.encode()).fetchall())


@pytest.mark.parametrize(
    "query", [COLUMNS, CONSTRAINTS, INDEXES, DOMAINS], ids=["columns", "rules", "indexes", "types"]
)
def test_the_migrations_add_up_to_what_is_declared(migrated: str, declared: str, query: str):
    assert rows(migrated, query)
    assert rows(migrated, query) == rows(declared, query)


def test_alembic_finds_nothing_to_migrate_to_what_is_declared(migrated: str):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    engine = create_engine(sqlalchemy_url(migrated), poolclass=NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "include_schemas": True,
                "include_name": lambda name, kind, _: kind != "schema" or name == "takeback",
                "include_object": lambda _, name, *__: name != "alembic_version",
                "compare_type": True,
            },
        )
        assert compare_metadata(context, METADATA) == []


def test_the_tenant_leads_every_primary_key_and_unique_index(migrated: str):
    found = rows(
        migrated,
        """
        SELECT i.indexrelid::regclass::text, a.attname
        FROM pg_index AS i
        JOIN pg_class AS r ON r.oid = i.indrelid
        JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
        WHERE r.relnamespace = 'takeback'::regnamespace AND i.indisunique
          AND r.relname <> 'alembic_version'
        """,
    )
    # A freeze may be of every tenant, which a null says, and no key can lead with a null; a
    # connector is one for all tenants. Both are a handful of rows that everybody reads: distributed
    # by tenant, the tables stand on every node.
    everybodys = {("takeback.freezes_pkey", "number"), ("takeback.connectors_pkey", "name")}
    assert everybodys < found
    assert len(found) == 12
    assert {leading for _, leading in found - everybodys} == {"tenant"}


def test_no_unique_index_leaves_a_row_out(migrated: str):
    """They are partial for the planner's sake alone: their conditions hold for every row."""
    partial = rows(
        migrated,
        """
        SELECT pg_get_expr(indpred, indrelid) FROM pg_index
        JOIN pg_class ON pg_class.oid = indrelid
        WHERE relnamespace = 'takeback'::regnamespace AND indisunique AND indpred IS NOT NULL
        """,
    )
    assert partial == {("(ref IS NOT NULL)",), ("(key IS NOT NULL)",)}
    nullable = rows(
        migrated,
        """
        SELECT attname FROM pg_attribute
        WHERE attrelid = 'takeback.intents'::regclass AND attname IN ('ref', 'key')
          AND NOT attnotnull
        """,
    )
    assert nullable == set()


def test_every_state_of_the_lifecycle_can_be_stored_and_no_other(migrated: str):
    with psycopg.connect(migrated) as tx:
        for state in State:
            tx.execute("SELECT CAST(%s AS takeback.state)", [state.value])
        with pytest.raises(psycopg.errors.CheckViolation, match="state_is_known"):
            tx.execute("SELECT CAST('forgotten' AS takeback.state)")


def test_every_function_table_and_type_says_what_it_is_for(migrated: str):
    silent = rows(
        migrated,
        """
        SELECT proname FROM pg_proc
        WHERE pronamespace = 'takeback'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL
        UNION ALL
        SELECT relname FROM pg_class
        WHERE relnamespace = 'takeback'::regnamespace AND relkind = 'r'
          AND relname <> 'alembic_version' AND obj_description(oid, 'pg_class') IS NULL
        UNION ALL
        SELECT typname FROM pg_type
        WHERE typnamespace = 'takeback'::regnamespace AND typtype = 'd'
          AND obj_description(oid, 'pg_type') IS NULL
        """,
    )
    assert silent == set()


def test_identifiers_are_compared_byte_by_byte_whatever_the_locale_of_the_database(migrated: str):
    """Uniqueness must not depend on a collation that the next release of a system sorts anew."""
    others = rows(
        migrated,
        """
        SELECT a.attrelid::regclass::text, a.attname
        FROM pg_index AS i
        JOIN pg_class AS r ON r.oid = i.indrelid
        JOIN pg_attribute AS a ON a.attrelid = i.indexrelid
        JOIN pg_collation AS c ON c.oid = a.attcollation
        WHERE r.relnamespace = 'takeback'::regnamespace AND c.collname <> 'C'
          AND r.relname <> 'alembic_version'
        """,
    )
    assert others == set()


def test_the_sequence_of_places_belongs_to_the_log_and_hands_out_one_at_a_time(migrated: str):
    """A cache would hand a later place to an earlier transaction, behind the reader's back."""
    assert rows(
        migrated,
        """
        SELECT sequencename, data_type::text, start_value, increment_by, cycle, cache_size,
               pg_get_serial_sequence('takeback.events', 'position')
        FROM pg_sequences WHERE schemaname = 'takeback' AND sequencename = 'events_position'
        """,
    ) == {("events_position", "bigint", 1, 1, False, 1, "takeback.events_position")}
