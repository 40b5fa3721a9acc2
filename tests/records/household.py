"""Acting for an intent by hand, on the shop's tables and on tables of a test's own."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, MetaData, Table, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from takeback import Original

FIRST = "01990000-0000-7000-8000-000000000001"
SECOND = "01990000-0000-7000-8000-000000000002"
TENANT = "default"


def engine_of(url: str, *, time_zone: str = "UTC") -> Engine:
    driver = make_url(url).set(drivername="postgresql+psycopg")
    engine = create_engine(driver, poolclass=NullPool)

    @event.listens_for(engine, "begin")
    def _(connection: Connection) -> None:
        # For each transaction: a pooler takes it at no other time.
        connection.exec_driver_sql(f"SET LOCAL TimeZone = '{time_zone}'")

    return engine


@contextmanager
def acting(url: str, intent: str = FIRST, *, time_zone: str = "UTC") -> Iterator[Session]:
    """A session whose transaction is committed at the end, on behalf of ``intent``."""
    with Session(engine_of(url, time_zone=time_zone)) as session, session.begin():
        act_for(session, intent)
        yield session


def act_for(session: Session, intent: str) -> None:
    session.execute(
        text(
            "SELECT set_config('takeback.tenant', :tenant, true),"
            " set_config('takeback.intent', :intent, true)"
        ),
        {"tenant": TENANT, "intent": intent},
    )


def original(intent: str = FIRST) -> Original:
    """What a restoring face is handed of that intent."""
    return Original(
        intent_id=intent, ref="tool-00000000", tenant=TENANT, arguments=None, result=None
    )


def run(url: str, *statements: str) -> None:
    """Somebody else's statements, committed."""
    with engine_of(url).begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def rows(url: str, query: str) -> list[tuple]:
    with engine_of(url).connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query)]


def contents(url: str, table: str) -> list[str]:
    """Every row of a table in the words of Postgres, in a fixed order."""
    return [row for (row,) in rows(url, f"SELECT CAST(r AS text) FROM {table} AS r ORDER BY 1")]


def reflected(url: str, name: str, schema: str) -> Table:
    return Table(name, MetaData(), schema=schema, autoload_with=engine_of(url))
