"""The log is append-only in the database itself, for everybody, whatever they were granted."""

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import InsufficientPrivilege, RestrictViolation

from tests.ledger.conftest import Connect
from tests.ledger.scribe import Scribe, recorded

CHANGES = {
    "update": "UPDATE takeback.events SET payload = '{}'",
    "update of nothing": "UPDATE takeback.events SET payload = '{}' WHERE false",
    "delete": "DELETE FROM takeback.events",
    "delete of nothing": "DELETE FROM takeback.events WHERE false",
    "delete through a reader": "WITH gone AS (DELETE FROM takeback.events RETURNING 1) SELECT 1",
    "truncate": "TRUNCATE takeback.events",
    "truncate with others": "TRUNCATE takeback.events, takeback.intents, takeback.bodies",
    "upsert": """
        INSERT INTO takeback.events
        SELECT tenant, intent_id, version, position, kind, schema, recorded_at, payload, hash
        FROM takeback.events ON CONFLICT (tenant, intent_id, version) DO UPDATE SET kind = 'x'
        """,
    "merge": """
        MERGE INTO takeback.events AS e USING (SELECT 1) AS s ON true
        WHEN MATCHED THEN DELETE
        """,
}


@pytest.fixture
def stranger(server_url: str, database_url: str) -> Iterator[str]:
    """A role that was granted everything there is on the tables, and owns none."""
    name = f"tb_stranger_{uuid.uuid4().hex[:8]}"
    role = sql.Identifier(name)
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {}").format(role))
        admin.execute(sql.SQL("GRANT ALL ON SCHEMA takeback TO {}").format(role))
        admin.execute(sql.SQL("GRANT ALL ON ALL TABLES IN SCHEMA takeback TO {}").format(role))
        admin.execute(sql.SQL("GRANT ALL ON ALL SEQUENCES IN SCHEMA takeback TO {}").format(role))
        yield name
        admin.execute(sql.SQL("DROP OWNED BY {}").format(role))
        admin.execute(sql.SQL("DROP ROLE {}").format(role))


@pytest.mark.parametrize("empty", [False, True], ids=["filled", "empty"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_nobody_changes_the_log_not_even_a_superuser(
    connect: Connect, scribe: Scribe, change: str, empty: bool
):
    tx = connect()
    if not empty:
        recorded(tx, scribe.entry())
        tx.commit()
    with pytest.raises(RestrictViolation, match="append-only"):
        tx.execute(change.encode())
    tx.rollback()
    count = tx.execute("SELECT count(*) FROM takeback.events").fetchone()
    assert count == (0 if empty else 1,)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_role_that_was_granted_all_of_it_can_append_and_nothing_else(
    connect: Connect, scribe: Scribe, stranger: str, change: str
):
    tx = connect()
    tx.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(stranger)))
    recorded(tx, scribe.entry())
    tx.commit()
    with pytest.raises(RestrictViolation):
        tx.execute(change.encode())


def test_a_role_without_grants_is_stopped_before_the_trigger(
    connect: Connect, scribe: Scribe, stranger: str
):
    tx = connect()
    tx.execute(sql.SQL("REVOKE ALL ON takeback.events FROM {}").format(sql.Identifier(stranger)))
    tx.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(stranger)))
    with pytest.raises(InsufficientPrivilege):
        tx.execute("UPDATE takeback.events SET kind = 'x'")


def test_the_owner_has_no_right_to_change_the_log(connect: Connect):
    """A second wall: what disables the trigger still needs a grant first."""
    (mine,) = connect().execute(
        """
        SELECT array_agg(acl.privilege_type ORDER BY 1)
        FROM pg_class AS c, aclexplode(c.relacl) AS acl
        WHERE c.oid = 'takeback.events'::regclass AND acl.grantee = c.relowner
        """
    ).fetchone() or (None,)
    assert mine is not None
    assert not {"UPDATE", "DELETE", "TRUNCATE"} & set(mine)
    assert "INSERT" in mine


def test_a_replicas_session_changes_nothing_either(connect: Connect, scribe: Scribe):
    tx = connect()
    recorded(tx, scribe.entry())
    tx.commit()
    tx.execute("SET session_replication_role = replica")
    with pytest.raises(RestrictViolation):
        tx.execute("DELETE FROM takeback.events")


def test_bodies_can_be_forgotten(connect: Connect, scribe: Scribe):
    tx = connect()
    recorded(tx, scribe.entry())
    assert tx.execute("DELETE FROM takeback.bodies").rowcount == 1
