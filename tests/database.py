"""The database of the tests: which server, one migrated template a run, one database a process.

The server is the one whose address the environment gives, else a container where Docker answers,
else the embedded one. On it a run makes

    takeback_test_<run>_template     migrated and seeded once, by whichever process comes first
    takeback_test_<run>_<process>    a clone of it for each process of the suite
    takeback_test_<run>_<process>_n  empty ones, for tests that fill or migrate one themselves

A clone is put back before each test (a few milliseconds) and is made anew (a quarter of a second)
only when a test changed the schema itself, or when something in it can't be put back.

Two processes that come first at once are kept apart by an advisory lock on the server's own
database. Nobody may connect to the template: a clone needs it for itself.
"""

import hashlib
import importlib
import importlib.util
import itertools
import os
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg import sql

URL_VARIABLE = "TAKEBACK_TEST_DATABASE_URL"
DOCKER_PING_SECONDS = 2
CONTAINER_IMAGE = "postgres:17-alpine"
DEAD_PAGES_MAX = 32


class Source(Enum):
    """Where the server comes from, in the order of preference."""

    GIVEN = "an address in the environment"
    CONTAINER = "a container"
    EMBEDDED = "the embedded server"


def choose(environment: Mapping[str, str], docker_answers: Callable[[], bool]) -> Source:
    """The first source that is there. Docker is asked only when no address is given."""
    if environment.get(URL_VARIABLE):
        return Source.GIVEN
    return Source.CONTAINER if docker_answers() else Source.EMBEDDED


def docker_answers() -> bool:
    """Whether a Docker engine replies within two seconds; the client alone does not count.

    Asked in a process of its own: the client leaves its socket open when nobody replies.
    """
    ping = f"import docker; docker.from_env(timeout={DOCKER_PING_SECONDS}).ping()"
    asked = subprocess.run([sys.executable, "-c", ping], check=False, capture_output=True)
    return asked.returncode == 0


@contextmanager
def serve(source: Source, *, directory: Path) -> Iterator[str]:
    """The address of a running server, as a superuser. Several processes may name one directory."""
    match source:
        case Source.GIVEN:
            yield os.environ[URL_VARIABLE]
        case Source.CONTAINER:
            from testcontainers.community.postgres import PostgresContainer

            with PostgresContainer(CONTAINER_IMAGE, driver=None) as container:
                yield container.get_connection_url()
        case Source.EMBEDDED:
            from takeback import embedded

            # Root's server runs as somebody else, who has to get through to its data.
            directory.mkdir(mode=0o711, exist_ok=True)
            server = embedded.acquire(directory / "pg")
            try:
                yield server.url
            finally:
                server.release()


class Table(NamedTuple):
    """A table's whole name."""

    schema: str
    name: str

    @property
    def quoted(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a clean clone holds, so that it can be put back."""

    schema: str
    rows: Mapping[Table, bytes]
    sequences: Sequence[tuple[str, int, bool]]


class Databases:
    """The databases of one process of the suite."""

    def __init__(self, server_url: str, *, run: str, process: str) -> None:
        self.server_url = server_url
        self._template = f"takeback_test_{run}_template"
        self._name = f"takeback_test_{run}_{process}"
        self._numbers = itertools.count(1)
        self._snapshot: Snapshot | None = None

    def clean(self) -> str:
        """The address of this process's database, as the template is."""
        url = with_database(self.server_url, self._name)
        if self._snapshot is not None and put_back(url, self._snapshot):
            return url
        make_template(self.server_url, self._template)
        with psycopg.connect(self.server_url, autocommit=True) as admin:
            drop(admin, self._name)
            create(admin, self._name, template=self._template)
        with psycopg.connect(url) as tx:
            self._snapshot = look(tx)
        return url

    @contextmanager
    def empty(self) -> Iterator[str]:
        """The address of a database that nobody has used, dropped at the end."""
        name = f"{self._name}_{next(self._numbers)}"
        with psycopg.connect(self.server_url, autocommit=True) as admin:
            drop(admin, name)
            create(admin, name, template="template1")
        try:
            yield with_database(self.server_url, name)
        finally:
            with psycopg.connect(self.server_url, autocommit=True) as admin:
                drop(admin, name)


def drop_all(server_url: str, run: str) -> None:
    """Drop whatever the processes of a run made on a server that stays."""
    with psycopg.connect(server_url, autocommit=True) as admin:
        made = admin.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s)",
            [f"takeback_test_{run}_"],
        )
        for (name,) in made.fetchall():
            drop(admin, name)


def make_template(server_url: str, name: str) -> None:
    """Migrate and seed the template, unless another process has; half made, it is a draft."""
    draft = f"{name}_draft"
    lock = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
    with psycopg.connect(server_url, autocommit=True) as admin:
        admin.execute("SELECT pg_advisory_lock(%s)", [lock])
        if admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
            return
        drop(admin, draft)
        create(admin, draft, template="template1")
        migrate(with_database(server_url, draft))
        alter = sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS false")
        admin.execute(alter.format(sql.Identifier(draft)))
        admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s",
            [draft],
        )
        rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
        admin.execute(rename.format(sql.Identifier(draft), sql.Identifier(name)))


def migrate(url: str) -> None:
    """The schema of the library at its head, and the example's tables with their seeded rows."""
    import takeback_migrations

    takeback_migrations.upgrade(url)
    if importlib.util.find_spec("takeback_shop.schema"):
        importlib.import_module("takeback_shop.schema").migrate(url)


def look(tx: psycopg.Connection) -> Snapshot:
    """Remember a clean database: the rows that it starts with, and where its sequences stand."""
    sequences = tx.execute(
        """
        SELECT format('%I.%I', schemaname, sequencename),
               coalesce(last_value, start_value),
               last_value IS NOT NULL
        FROM pg_sequences
        """
    ).fetchall()
    contents = {table: copy_out(tx, table) for table, pages in used_pages(tx).items() if pages}
    return Snapshot(
        schema=schema_print(tx),
        rows=contents,
        sequences=[(name, value, called) for name, value, called in sequences],
    )


def put_back(url: str, snapshot: Snapshot) -> bool:
    """Make a used database equal to the snapshot; False where only a new clone can do that."""
    try:
        with psycopg.connect(url) as tx:
            expel_others(tx)
            if schema_print(tx) != snapshot.schema:
                return False
            tx.execute("SET LOCAL lock_timeout = '2s'")
            tx.execute("SET LOCAL synchronous_commit = off")
            with unguarded(tx):
                for table, pages in used_pages(tx).items():
                    seeded = snapshot.rows.get(table)
                    if seeded is None:
                        clear(tx, table, pages)
                    elif copy_out(tx, table) != seeded:
                        clear(tx, table, pages)
                        copy_in(tx, table, seeded)
            for sequence in snapshot.sequences:
                tx.execute("SELECT setval(%s::regclass, %s, %s)", sequence)
    except psycopg.Error:
        return False
    return True


@contextmanager
def unguarded(tx: psycopg.Connection) -> Iterator[None]:
    """Let rows go that triggers hold. A replica's session fires none but those marked ALWAYS."""
    guards = [
        (sql.Identifier(schema, table), sql.Identifier(name))
        for schema, table, name in tx.execute(
            """
            SELECT nspname, relname, tgname
            FROM pg_trigger
            JOIN pg_class ON pg_class.oid = tgrelid
            JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE tgenabled = 'A'
            """
        ).fetchall()
    ]
    tx.execute("SET LOCAL session_replication_role = replica")
    for guard in guards:
        tx.execute(sql.SQL("ALTER TABLE {} DISABLE TRIGGER {}").format(*guard))
    yield
    for guard in guards:
        tx.execute(sql.SQL("ALTER TABLE {} ENABLE ALWAYS TRIGGER {}").format(*guard))


def used_pages(tx: psycopg.Connection) -> dict[Table, int]:
    """Every table with its size; one of no pages holds no rows either."""
    found = tx.execute(
        """
        SELECT nspname, relname, pg_relation_size(pg_class.oid) / 8192
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE relkind = 'r' AND relpersistence <> 't' AND pg_class.oid >= 16384
        """
    ).fetchall()
    return {Table(schema, name): pages for schema, name, pages in found}


def clear(tx: psycopg.Connection, table: Table, pages: int) -> None:
    """Leave no row. DELETE costs a tenth of TRUNCATE, but later tests read the dead rows."""
    if pages > DEAD_PAGES_MAX:
        tx.execute(sql.SQL("TRUNCATE {}").format(table.quoted))
    elif pages > 0:
        tx.execute(sql.SQL("DELETE FROM {}").format(table.quoted))


def expel_others(tx: psycopg.Connection) -> None:
    """End what earlier tests left connected; wait only for those that may hold locks on rows."""
    tx.execute(
        """
        SELECT pg_terminate_backend(pid, CASE WHEN state = 'idle' THEN 0 ELSE 2000 END)
        FROM pg_stat_activity
        WHERE datname = current_database()
          AND pid <> pg_backend_pid()
          AND backend_type = 'client backend'
        """
    )


def schema_print(tx: psycopg.Connection) -> str:
    """A digest of everything that a test may have changed beside rows.

    A row of the catalog that was written again has another xmin; tables and triggers are left out
    of that, since TRUNCATE, ANALYZE and putting things back write there too.
    """
    row = tx.execute(
        """
        SELECT md5(string_agg(line, ';' ORDER BY line))
        FROM (
            SELECT concat('class', oid, relname, relacl) FROM pg_class
             WHERE oid >= 16384 AND relpersistence <> 't' AND relkind <> 't'
            UNION ALL SELECT concat('column', attrelid, attnum, pg_attribute.xmin) FROM pg_attribute
             JOIN pg_class ON pg_class.oid = attrelid
             WHERE attrelid >= 16384 AND relpersistence <> 't' AND relkind NOT IN ('t', 'i')
            UNION ALL SELECT concat('routine', oid, xmin) FROM pg_proc WHERE oid >= 16384
            UNION ALL SELECT concat('trigger', tgenabled, pg_get_triggerdef(oid)) FROM pg_trigger
             WHERE oid >= 16384 AND NOT tgisinternal
            UNION ALL SELECT concat('constraint', oid, xmin) FROM pg_constraint WHERE oid >= 16384
            UNION ALL SELECT concat('schema', oid, nspname, nspacl) FROM pg_namespace
             WHERE oid >= 16384 AND nspname NOT LIKE 'pg\\_%temp\\_%'
            UNION ALL SELECT concat('setting', setrole, setconfig) FROM pg_db_role_setting
             WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
        ) AS lines (line)
        """
    ).fetchone()
    assert row is not None
    return str(row[0])


def copy_out(tx: psycopg.Connection, table: Table) -> bytes:
    statement = sql.SQL("COPY {} TO STDOUT (FORMAT binary)").format(table.quoted)
    with tx.cursor().copy(statement) as copy:
        return b"".join(bytes(block) for block in copy)


def copy_in(tx: psycopg.Connection, table: Table, rows: bytes) -> None:
    statement = sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(table.quoted)
    with tx.cursor().copy(statement) as copy:
        copy.write(rows)


def create(admin: psycopg.Connection, name: str, *, template: str) -> None:
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    admin.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))


def drop(admin: psycopg.Connection, name: str) -> None:
    admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def with_database(url: str, name: str) -> str:
    """The same server and user, another database.

    >>> with_database("postgresql://me@127.0.0.1:5432/postgres?connect_timeout=3", "other")
    'postgresql://me@127.0.0.1:5432/other?connect_timeout=3'
    >>> with_database("postgresql:///postgres?host=/run/pg", "other")
    'postgresql:///other?host=/run/pg'
    """
    return urllib.parse.urlunsplit(urllib.parse.urlsplit(url)._replace(path=f"/{name}"))
