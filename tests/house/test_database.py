"""A test finds its database as every other did: migrated, seeded, nobody's leftovers in it."""

import psycopg
import pytest

from tests.database import Databases, drop_all, look, put_back, schema_print, with_database

# A small guest with what makes resetting hard: a table that refuses to be emptied, seeded rows,
# an identity column, keys between tables.
TABLES = """
    CREATE TABLE customer (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL,
        loud text GENERATED ALWAYS AS (upper(name)) STORED
    );
    INSERT INTO customer (name) VALUES ('Dana'), ('Kim');
    CREATE TABLE "order" (id bigint PRIMARY KEY, customer_id bigint NOT NULL REFERENCES customer);
    INSERT INTO "order" VALUES (1, 1);
    CREATE TABLE log (n bigserial PRIMARY KEY, word text);
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE 'append only'; END $$;
    CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON log
        FOR EACH STATEMENT EXECUTE FUNCTION refuse();
"""

IDENTITY = "SELECT oid FROM pg_database WHERE datname = current_database()"


@pytest.fixture
def guest(empty_database_url):
    """A filled database, and what it held before anybody used it."""
    with psycopg.connect(empty_database_url) as tx:
        tx.execute(TABLES)
    with psycopg.connect(empty_database_url) as tx:
        return empty_database_url, look(tx)


def everything(url: str) -> list:
    with psycopg.connect(url) as tx:
        return [
            tx.execute("SELECT * FROM customer ORDER BY id").fetchall(),
            tx.execute('SELECT * FROM "order" ORDER BY id').fetchall(),
            tx.execute("SELECT * FROM log ORDER BY n").fetchall(),
        ]


def test_rows_and_sequences_are_put_back(guest):
    url, snapshot = guest
    before = everything(url)
    with psycopg.connect(url) as tx:
        tx.execute("INSERT INTO log (word) VALUES ('one'), ('two')")
        tx.execute("INSERT INTO customer (name) VALUES ('Lee')")
        tx.execute('DELETE FROM "order"')
        tx.execute("DELETE FROM customer WHERE name = 'Dana'")

    assert put_back(url, snapshot)

    assert everything(url) == before
    with psycopg.connect(url) as tx:
        assert tx.execute("INSERT INTO log (word) VALUES ('a') RETURNING n").fetchone() == (1,)
        added = tx.execute("INSERT INTO customer (name) VALUES ('b') RETURNING id").fetchone()
        assert added == (3,)


def test_the_trigger_that_was_stepped_round_still_stands_afterwards(guest):
    url, snapshot = guest
    assert put_back(url, snapshot)
    with psycopg.connect(url) as tx, pytest.raises(psycopg.errors.RaiseException):
        tx.execute("TRUNCATE log")


def test_a_transaction_left_open_is_ended(guest):
    url, snapshot = guest
    left = psycopg.connect(url)
    left.execute("INSERT INTO log (word) VALUES ('locked')")

    assert put_back(url, snapshot)

    assert everything(url)[2] == []
    with pytest.raises(psycopg.OperationalError):
        left.execute("SELECT 1")
    left.close()


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE another ()",
        "DROP TRIGGER append_only ON log",
        "CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE ON log EXECUTE FUNCTION refuse()",
        "ALTER TABLE log DISABLE TRIGGER append_only",
        "ALTER TABLE log ADD COLUMN extra text",
        "ALTER TABLE log ALTER COLUMN word SET NOT NULL",
        'ALTER TABLE "order" DROP CONSTRAINT order_customer_id_fkey',
        "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN END $$",
        "CREATE SCHEMA other",
        "GRANT SELECT ON log TO PUBLIC",
        "CREATE INDEX ON log (word)",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET x.y = 1', current_database()); END $$",
    ],
)
def test_a_changed_schema_is_noticed(guest, change):
    url, snapshot = guest
    with psycopg.connect(url) as tx:
        tx.execute(change)
    assert not put_back(url, snapshot)


def test_a_trigger_that_guards_even_against_a_replica_is_stepped_round_too(empty_database_url):
    with psycopg.connect(empty_database_url) as tx:
        tx.execute(TABLES)
        tx.execute("ALTER TABLE log ENABLE ALWAYS TRIGGER append_only")
    with psycopg.connect(empty_database_url) as tx:
        snapshot = look(tx)
        tx.execute("INSERT INTO log (word) VALUES ('one')")

    assert put_back(empty_database_url, snapshot)

    assert everything(empty_database_url)[2] == []
    with psycopg.connect(empty_database_url) as tx:
        assert schema_print(tx) == snapshot.schema
        tx.execute("SET session_replication_role = replica")
        with pytest.raises(psycopg.errors.RaiseException):
            tx.execute("TRUNCATE log")


def test_emptying_analysing_and_vacuuming_are_no_change_of_the_schema(guest):
    url, snapshot = guest
    with psycopg.connect(url, autocommit=True) as tx:
        tx.execute('TRUNCATE "order"')
        tx.execute("ANALYZE")
        tx.execute("VACUUM FREEZE")
        tx.execute("CREATE TEMPORARY TABLE scratch (id int)")
        assert schema_print(tx) == snapshot.schema


def test_the_migrated_database_is_put_back_though_its_log_only_grows(databases: Databases):
    url = databases.clean()
    with psycopg.connect(url) as tx:
        (database,) = tx.execute(IDENTITY).fetchall()
        tx.execute(
            """
            INSERT INTO takeback.events
                (tenant, intent_id, version, position, kind, schema, recorded_at, payload, hash)
            VALUES ('a', gen_random_uuid(), 1, 1, 'intent.recorded', 1, now(), '{}', sha256(''))
            """
        )

    assert databases.clean() == url

    with psycopg.connect(url) as tx:
        assert tx.execute("SELECT count(*) FROM takeback.events").fetchone() == (0,)
        assert tx.execute(IDENTITY).fetchall() == [database], "made anew, which is slow"


def test_the_migrated_database_is_clean_after_its_schema_was_broken(databases: Databases):
    url = databases.clean()
    with psycopg.connect(url) as tx:
        tx.execute("DROP SCHEMA takeback CASCADE")
        tx.execute("CREATE TABLE leftover ()")

    url = databases.clean()

    with psycopg.connect(url) as tx:
        assert tx.execute("SELECT to_regclass('takeback.events') IS NOT NULL").fetchone() == (True,)
        assert tx.execute("SELECT to_regclass('leftover')").fetchone() == (None,)


def test_a_run_takes_its_databases_along(server_url):
    run = "gone0000"
    elsewhere = Databases(server_url, run=run, process="one")
    with elsewhere.empty() as url, psycopg.connect(url):
        drop_all(server_url, run)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)


def test_an_address_keeps_all_but_its_database():
    url = "postgresql+psycopg://a:b%40c@[::1]:5433/postgres?sslmode=disable"
    assert with_database(url, "x") == "postgresql+psycopg://a:b%40c@[::1]:5433/x?sslmode=disable"
