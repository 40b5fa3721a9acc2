"""Trying out what a call would do, and what was foreseen: kept for a day under a token.

A rehearsal is a savepoint that is undone whatever came of it: rows, images, intents recorded on the
way, settings and the locks taken inside are as before. Numbers drawn from sequences stay drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from sqlalchemy import Connection, text
from sqlalchemy.orm import Session

from takeback.ledger.sqlstate import translated
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx, adopt
from takeback.model.errors import TransactionEnded

LOCK_PATIENCE_MS = 1_000
"""A rehearsal waits so long for a row that somebody else holds: it holds what it has, meanwhile."""

STATEMENT_MS_MAX = 5_000
"""No single statement of a rehearsal takes longer."""

KEPT_MICROSECONDS = 24 * 60 * 60 * 1_000_000
"""A preview is worth a day: by then the world is another one."""

FORGOTTEN_MAX = 100
"""So many old ones are forgotten with each new one: more than ever come in, and never many."""

BOUND_WAITING = Statement(
    name="bound_waiting",
    sentence="Bounds what the rest of a rehearsal waits for; a stricter bound is kept.",
    index=None,
    lock="none",
    text=text("""
SELECT set_config(b.name, CASE
    WHEN CAST(current_setting(b.name) AS interval)
         BETWEEN interval '1 millisecond' AND b.ms * interval '1 millisecond'
    THEN current_setting(b.name) ELSE CAST(b.ms AS text) END, true)
FROM (VALUES ('lock_timeout', CAST(:lock_ms AS int)),
             ('statement_timeout', CAST(:statement_ms AS int))) AS b (name, ms)
"""),
)

# What the session has counted and not yet reported may be of its last transaction.
CHECKED_LATER = Statement(
    name="checked_later",
    sentence="Counts the changes to tables with a constraint or trigger that may wait for the end.",
    index=None,
    lock="none",
    text=text("""
SELECT CASE WHEN CAST(current_setting('track_counts') AS boolean) THEN CAST(coalesce(sum(
    pg_catalog.pg_stat_get_xact_tuples_inserted(c.oid)
    + pg_catalog.pg_stat_get_xact_tuples_updated(c.oid)
    + pg_catalog.pg_stat_get_xact_tuples_deleted(c.oid)), 0) AS bigint) END
FROM pg_catalog.pg_class AS c
WHERE c.relnamespace <> CAST('takeback' AS regnamespace)
  AND c.oid IN (SELECT t.tgrelid FROM pg_catalog.pg_trigger AS t WHERE t.tgdeferrable)
"""),
)

KEEP_PREVIEW = Statement(
    name="keep_preview",
    sentence="Keeps what was foreseen, unless its token is taken.",
    index="previews_pkey",
    lock="its new row",
    text=text("""
INSERT INTO takeback.previews (tenant, token, tool, at, arguments, affected, affected_count)
VALUES (CAST(:tenant AS text), CAST(:token AS text), CAST(:tool AS text), takeback.now(),
        CAST(:arguments AS text), CAST(:affected AS text), CAST(:affected_count AS bigint))
ON CONFLICT ON CONSTRAINT previews_pkey DO NOTHING
RETURNING 1
"""),
)

# Under a snapshot that is kept, a row that somebody else has forgotten would fail the transaction.
FORGET_PREVIEWS = Statement(
    name="forget_previews",
    sentence="Forgets some previews that are too old, unless a snapshot is kept.",
    index="previews_age",
    lock="the rows it deletes; skips those that others hold",
    text=text("""
WITH old AS MATERIALIZED (
    SELECT p.ctid AS place FROM takeback.previews AS p
    WHERE p.at < (SELECT takeback.now() - CAST(:age_us AS bigint) * interval '1 microsecond')
      AND current_setting('transaction_isolation') = 'read committed'
    ORDER BY p.at LIMIT CAST(:limit AS int)
    FOR UPDATE SKIP LOCKED
)
DELETE FROM takeback.previews AS p WHERE p.ctid = ANY (ARRAY(SELECT old.place FROM old))
"""),
)

READ_PREVIEW = Statement(
    name="read_preview",
    sentence="Reads what was foreseen under a token, unless that is too old.",
    index="previews_pkey",
    lock="none",
    text=text("""
SELECT p.tool, p.arguments, p.affected FROM takeback.previews AS p
WHERE p.tenant = CAST(:tenant AS text) AND p.token = CAST(:token AS text)
  AND p.at >= takeback.now() - CAST(:age_us AS bigint) * interval '1 microsecond'
"""),
)

TOKENS_LIKE = Statement(
    name="tokens_like",
    sentence="Finds tokens of previews that share a beginning, to name look-alikes.",
    index="previews_pkey",
    lock="none",
    text=text("""
SELECT p.token FROM takeback.previews AS p
WHERE p.tenant = CAST(:tenant AS text)
  AND p.token >= CAST(:low AS text) AND p.token < CAST(:high AS text)
ORDER BY p.token LIMIT CAST(:limit AS int)
"""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A stored preview: ``arguments`` and ``affected`` are JSON text."""

    tool: str
    arguments: str
    affected: str


@contextmanager
def rehearsal(tx: Tx) -> Iterator[Tx]:
    """Runs a block in a transaction that is undone at its end, and leaves ``tx`` as it was.

    The block has a session of its own on the same connection: the objects of the caller's keep
    their values. What that one has not sent yet is sent first. Nothing in it waits for long.
    Raises RetryTransaction, NoTransaction, DatabaseUnavailable, and TransactionEnded when a handler
    has left nothing to undo.
    """
    session = tx.session
    inner: Tx | None = None
    try:
        with suppress(_Over), translated():
            session.flush()
            connection = session.connection()
            with connection.begin_nested():
                with _beside(session, connection) as own:
                    inner = adopt(own)
                    bounds = {"lock_ms": LOCK_PATIENCE_MS, "statement_ms": STATEMENT_MS_MAX}
                    inner.rows(BOUND_WAITING, bounds)
                    yield inner
                raise _Over
    except BaseException as problem:
        if inner is not None and inner.ended and not isinstance(problem, TransactionEnded):
            raise TransactionEnded from problem
        raise


class _Over(Exception):
    """A rehearsal is over: what it did is undone."""


def _beside(session: Session, connection: Connection) -> Session:
    """A session as a handler would get it, in a savepoint of its own, which it may roll back."""
    kind = type(session)
    derived = kind.__mro__[: kind.__mro__.index(Session)]
    # A class that is made in a way of its own can't be made here.
    made = Session if any("__init__" in vars(one) for one in derived) else kind
    return made(
        bind=connection,
        autoflush=session.autoflush,
        info=dict(session.info),
        join_transaction_mode="create_savepoint",
    )


def checked_later(tx: Tx) -> int | None:
    """How much was changed that the commit may still refuse; None where nobody counts.

    Compared with what it was before: alone it says nothing.
    """
    count: int | None = tx.row(CHECKED_LATER, {})[0]
    return count


def keep_preview(tx: Tx, tenant: str, token: str, kept: Kept, *, affected_count: int) -> bool:
    """Keeps a preview and forgets old ones; False when the token is taken."""
    tx.rows(FORGET_PREVIEWS, {"age_us": KEPT_MICROSECONDS, "limit": FORGOTTEN_MAX})
    parameters = {
        "tenant": tenant,
        "token": token,
        "tool": kept.tool,
        "arguments": kept.arguments,
        "affected": kept.affected,
        "affected_count": affected_count,
    }
    return bool(tx.rows(KEEP_PREVIEW, parameters))


def read_preview(tx: Tx, tenant: str, token: str) -> Kept | None:
    """The preview of that token, or None; one that is too old is none."""
    rows = tx.rows(READ_PREVIEW, {"tenant": tenant, "token": token, "age_us": KEPT_MICROSECONDS})
    return Kept(tool=rows[0][0], arguments=rows[0][1], affected=rows[0][2]) if rows else None


def tokens_between(tx: Tx, tenant: str, low: str, high: str, limit: int) -> Sequence[str]:
    """At most ``limit`` tokens in [low, high)."""
    parameters = {"tenant": tenant, "low": low, "high": high, "limit": limit}
    return [token for (token,) in tx.rows(TOKENS_LIKE, parameters)]
