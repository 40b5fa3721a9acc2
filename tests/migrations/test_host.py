"""A host's own Alembic lives beside ours in one database, and neither sees the other."""

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import takeback_migrations
from takeback.ledger.database import sqlalchemy_url

ENV = """
from alembic import context
from sqlalchemy import Column, Integer, MetaData, Table, create_engine
{imports}

metadata = MetaData()
Table("orders", metadata, Column("id", Integer, primary_key=True))
with create_engine({url!r}).connect() as connection:
    context.configure(connection=connection, target_metadata=metadata, include_schemas=True{with_})
    with context.begin_transaction():
        context.run_migrations()
"""
TEMPLATE = '''
"""${message}"""
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
from alembic import op
import sqlalchemy as sa


def upgrade():
    ${upgrades if upgrades else "pass"}
'''
IMPORT = "from takeback_migrations import ignore_takeback"
WITH = ", include_name=ignore_takeback"


class Host:
    """A project with an Alembic of its own."""

    def __init__(self, home: Path, url: str, *, helped: bool) -> None:
        self.home, self.url = home, url
        (home / "host" / "versions").mkdir(parents=True)
        (home / "alembic.ini").write_text("[alembic]\nscript_location = host\n")
        (home / "host" / "script.py.mako").write_text(TEMPLATE)
        env = ENV.format(
            imports=IMPORT if helped else "",
            with_=WITH if helped else "",
            url=sqlalchemy_url(url),
        )
        (home / "host" / "env.py").write_text(env)

    def alembic(self, *arguments: str) -> None:
        subprocess.run(
            [sys.executable, "-m", "alembic", *arguments],
            cwd=self.home,
            check=True,
            capture_output=True,
        )

    def generate(self) -> str:
        """What autogenerate would have the host do next."""
        self.alembic("revision", "--autogenerate", "-m", "next")
        newest = max(
            (self.home / "host" / "versions").glob("*.py"), key=lambda path: path.stat().st_mtime_ns
        )
        return newest.read_text().partition("def upgrade():")[2]


@pytest.mark.parametrize("first", ["host", "takeback"])
def test_a_hosts_autogenerate_leaves_us_alone_with_the_helper(
    tmp_path: Path, empty_database_url: str, first: str
):
    host = Host(tmp_path, empty_database_url, helped=True)
    if first == "takeback":
        takeback_migrations.upgrade(empty_database_url)
    assert "create_table('orders'" in host.generate()
    host.alembic("upgrade", "head")
    takeback_migrations.upgrade(empty_database_url)
    next_ = host.generate()
    assert "pass" in next_
    assert "takeback" not in next_
    with psycopg.connect(empty_database_url) as tx:
        versions = [
            tx.execute(f"SELECT version_num FROM {schema}.alembic_version".encode()).fetchone()
            for schema in ("public", "takeback")
        ]
    assert versions[1] == (takeback_migrations.latest_revision(),)
    assert versions[0] not in (None, versions[1])


def test_without_the_helper_autogenerate_would_drop_the_ledger(
    tmp_path: Path, empty_database_url: str
):
    """What the helper is for; when Alembic no longer proposes this, it is not needed."""
    host = Host(tmp_path, empty_database_url, helped=False)
    takeback_migrations.upgrade(empty_database_url)
    assert "drop_table('events'" in host.generate()


def test_the_helper_keeps_names_of_the_host_that_look_like_ours():
    ignore = takeback_migrations.ignore_takeback
    assert ignore("takeback_orders", "schema")
    assert ignore("takeback", "table", {"schema_name": None})
    assert ignore("events", "table", {"schema_name": "shop"})
    assert not ignore("events", "table", {"schema_name": "takeback"})
    assert not ignore("intents_due", "index", {"schema_name": "takeback", "table_name": "intents"})
    assert ignore(None, "schema")
