"""A guest in somebody's database takes what it is given and writes no more than it has to."""

import uuid
from collections.abc import Iterator
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

import takeback_migrations


@pytest.fixture
def migrator(empty_database_url: str) -> Iterator[str]:
    """A role that may make nothing but what lies in a schema of its own."""
    name = f"tb_migrator_{uuid.uuid4().hex[:8]}"
    role = sql.Identifier(name)
    with psycopg.connect(empty_database_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {}").format(role))
        admin.execute(sql.SQL("CREATE SCHEMA takeback AUTHORIZATION {}").format(role))
        yield name
        admin.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(role))
        admin.execute(sql.SQL("DROP ROLE {}").format(role))


def test_a_role_that_may_make_no_schema_migrates_one_that_was_made_for_it(
    empty_database_url: str, migrator: str
):
    joined = "&" if "?" in empty_database_url else "?"
    url = f"{empty_database_url}{joined}options={quote(f'-crole={migrator}', safe='')}"
    assert takeback_migrations.upgrade(url)[0] is None
    before, after = takeback_migrations.upgrade(url)
    assert before == after


HELD = """
INSERT INTO takeback.intents
    (tenant, id, ref, tool, tool_version, effect, key, generation, principal, state, version,
     recorded_at, window_us, due_at, head_hash)
SELECT 't', gen_random_uuid(), 'a-' || ago, 'a', 1, 'remote', 'k' || ago, 0, 'p', 'held', 1,
       takeback.now() - ago * interval '1 second', 60000000, takeback.now(), sha256('')
FROM unnest(CAST(%s AS float8[])) AS ago
"""


@pytest.mark.parametrize(("seconds", "moved"), [(0.0, 0), (0.9, 0), (1.1, 1)])
def test_a_window_is_moved_only_when_its_commit_comes_more_than_a_second_late(
    database_url: str, seconds: float, moved: int
):
    with psycopg.connect(database_url) as tx:
        tx.execute(HELD, [[seconds]])
    with psycopg.connect(database_url) as tx:
        kinds = tx.execute("SELECT kind FROM takeback.events").fetchall()
    assert kinds == [("intent.window_moved",)] * moved
