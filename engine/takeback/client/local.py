"""Local effects: performed and settled in the transaction that recorded them.

While a handler runs, two settings of the transaction, ``takeback.tenant`` and ``takeback.intent``,
name the intent on whose behalf rows change; ``takeback.records`` and triggers read them there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.orm import Session, SessionTransaction

from takeback.catalog.registry import Bound
from takeback.client.body import count_of, outcome_body, refusal_body
from takeback.client.context import Context
from takeback.client.face import Broke, call_face, performed, try_face
from takeback.ledger.acting import Actor, act_as
from takeback.ledger.appending import Body, Change, append
from takeback.ledger.locking import Taken, lock
from takeback.ledger.reading import Entry
from takeback.ledger.sqlstate import translate
from takeback.ledger.transaction import Tx
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.arguments import revive
from takeback.model.chain import SALT_BYTES, body_digest
from takeback.model.decide import decide
from takeback.model.handler import Affected, Face, Original, Performed
from takeback.model.intent import FINAL, Intent, State

GONE = "the database went away while the tool was at work"

_ENDED = (
    "a handler of a Local tool must not end the transaction, which is its caller's: "
    "leave out session.commit() and session.rollback()"
)

_SILENT = (
    "a statement of the handler has failed, and the handler went on: "
    "let the error through, or run the statement in session.begin_nested()"
)


def face_in(tx: Tx, intent: Intent, tool: str, face: Face, *arguments: Any) -> Performed:
    """What ``face`` did with the transaction's session, on behalf of ``intent``.

    A handler may call other tools: after each it is its own turn again. Raises TransactionEnded
    when it is nobody's turn by then: what says whose it is lasts as long as the transaction.
    """
    own = Actor(intent.tenant, str(intent.id))
    before = act_as(tx, own)
    try:
        done = run_face(tx, tool, face, *arguments)
    except errors.HandlerError as problem:
        if tx.is_over:
            tx.ended = True
            raise errors.TransactionEnded from problem
        raise
    if act_as(tx, before) != own:
        tx.ended = True
        raise errors.TransactionEnded
    return done


def run_face(tx: Tx, tool: str, face: Face, *arguments: Any) -> Performed:
    """What ``face`` answers inside the transaction, with all that it did sent to the database.

    Raises what the handler raised to refuse, RetryTransaction or DatabaseUnavailable when the
    transaction is lost, and HandlerBroke for anything else.
    """
    answer = try_face(_in_session, tx.session, face, *arguments)
    if not isinstance(answer, Broke):
        if tx.is_aborted:
            raise errors.HandlerBroke(tool) from RuntimeError(_SILENT)
        return performed(answer)
    if tx.is_lost:
        raise errors.DatabaseUnavailable(GONE) from answer.problem
    # Nothing else that a handler's statement is told says anything about the ledger.
    known = translate(answer.problem)
    if isinstance(known, errors.RetryTransaction):
        raise known from answer.problem
    raise errors.HandlerBroke(tool) from answer.problem


def _in_session(session: Session, face: Face, *arguments: Any) -> Any:
    """A handler ends no transaction: what it does is undone, or committed, by who opened it."""
    connection = session.connection()
    before = _innermost(session)

    def refuse(_: Session) -> None:
        if _innermost(session) is before:
            raise RuntimeError(_ENDED)

    event.listen(session, "before_commit", refuse)
    try:
        with _kept_open(connection):
            answer = call_face(face, session, *arguments)
    finally:
        event.remove(session, "before_commit", refuse)
    session.flush()
    if _innermost(session) is not before:
        raise RuntimeError(_ENDED)
    return answer


@contextmanager
def _kept_open(connection: Connection) -> Iterator[None]:
    """Behind the session's back the transaction can't be committed either, nor by a statement.

    A preview that was committed would be a call that nobody has made.
    """

    def refuse(*_: Any) -> None:
        raise RuntimeError(_ENDED)

    def look(_: Connection, __: Any, statement: str, *___: Any) -> None:
        if _ENDS.match(statement):
            raise RuntimeError(_ENDED)

    event.listen(connection, "commit", refuse)
    event.listen(connection, "before_cursor_execute", look)
    try:
        yield
    finally:
        event.remove(connection, "commit", refuse)
        event.remove(connection, "before_cursor_execute", look)


_ENDS = re.compile(
    r"(?:\s|;|--[^\n]*\n|/\*.*?\*/)*"
    r"(?:commit|end|abort|prepare\s+transaction|rollback(?!\s+(?:(?:work|transaction)\s+)?to\b))\b",
    re.IGNORECASE | re.DOTALL,
)
"""A statement that ends a transaction; one that goes back to a savepoint does not."""


def _innermost(session: Session) -> SessionTransaction | None:
    return session.get_nested_transaction() or session.get_transaction()


def settle(
    context: Context, tx: Tx, intent: Intent, done: Performed, extra: dict[str, Any] | None = None
) -> tuple[Intent, dict[str, Any]]:
    """Records that ``intent`` succeeded; answers with it and with the stored outcome."""
    body = sealed_body(context, "result", outcome_body(done, extra))
    taken = take(tx, intent)
    command = commands.Succeed(
        result=body_digest(body.salt, body.text), affected_count=count_of(done)
    )
    change = Change(taken=taken, events=decide(taken.intent, command, taken.now), bodies=(body,))
    return append(tx, [change])[0], json.loads(body.text)


def remember_refusal(
    context: Context, tx: Tx, intent: Intent, problem: errors.Rejected
) -> tuple[Intent, dict[str, Any]]:
    """Records that a Local call was refused for good, so that a repeat touches nothing."""
    text = refusal_body(problem.code, problem.message, problem.alternatives)
    body = sealed_body(context, "error", text)
    taken = take(tx, intent)
    command = commands.Fail(code=problem.code, error=body_digest(body.salt, body.text))
    change = Change(taken=taken, events=decide(taken.intent, command, taken.now), bodies=(body,))
    return append(tx, [change])[0], json.loads(text)


def stands(tx: Tx, bound: Bound, twin: Entry) -> bool:
    """Whether a Local effect is still as its call left it, or on its way there."""
    if twin.intent.state not in (State.SUCCEEDED, State.RESTORE_FAILED):
        return twin.intent.state not in FINAL
    if bound.handler.drift is None:
        return True
    try:
        original = original_of(bound, twin)
    except (errors.InvalidCatalog, errors.InvalidArguments):
        # Another release recorded it in a form that this one can't read: it is not done again.
        return True
    with tx.savepoint():
        return not run_face(tx, bound.name, bound.handler.drift, original).result


def original_of(bound: Bound, entry: Entry) -> Original:
    """What a restoring face is handed of the intent that it takes back."""
    outcome: Mapping[str, Any] = entry.bodies.get("result") or {}
    arguments = revive(bound.tool, entry.intent.tool_version, entry.bodies.get("arguments") or {})
    return Original(
        intent_id=str(entry.intent.id),
        ref=entry.intent.ref,
        tenant=entry.intent.tenant,
        arguments=arguments.model,
        result=outcome.get("result"),
        affected=tuple(
            Affected(kind=one["kind"], id=one["id"], label=one["label"])
            for one in outcome.get("affected", ())
        ),
    )


def sealed_body(context: Context, name: str, text: str) -> Body:
    """A body with a salt of its own."""
    return Body(name=name, salt=context.entropy(SALT_BYTES), text=text)


def take(tx: Tx, intent: Intent) -> Taken:
    """The intent, locked; it was recorded or read in this transaction, so it is there."""
    return lock(tx, intent.tenant, [intent.id])[0]
