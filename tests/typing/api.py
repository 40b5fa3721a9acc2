"""How the public surface is used, for mypy alone: nothing of this is ever run.

A name that is taken away, a parameter that is renamed and an answer of another type fail here
before they fail at somebody's. Every public name occurs; a test compares.
"""

# mypy: disallow-any-generics, disallow-untyped-defs, disallow-incomplete-defs, warn-return-any
# mypy: disallow-untyped-calls, disallow-untyped-decorators

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, assert_type

import psycopg
from pydantic import BaseModel, field_validator
from sqlalchemy import Connection, MetaData, Table
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from takeback import (
    Absent,
    Affected,
    Attempt,
    Call,
    Door,
    Envelope,
    Fault,
    Found,
    Full,
    Group,
    Handler,
    HandlerError,
    InvalidCatalog,
    InvalidReference,
    InvalidSettings,
    NoAccess,
    NoSuchRef,
    NotDispatched,
    NotRestorable,
    Original,
    OutcomeUnknown,
    Page,
    Performed,
    Permission,
    Proposal,
    Rejected,
    RestoreConflict,
    RetryTransaction,
    Settings,
    Shown,
    Takeback,
    TakebackError,
    TransactionAborted,
    Unavailable,
)
from takeback.connectors import smtp
from takeback.declare import (
    APPROVE,
    ASK,
    BLIND,
    CANCEL,
    CANCEL_ONLY,
    COMPENSATE,
    CONFLICT,
    DIFFERS,
    EXCLUDED,
    FOREVER,
    FULL,
    GATED,
    GO_ON,
    HIGH,
    KEYED,
    LOOKUP,
    LOOP,
    LOW,
    NORMAL,
    OMIT,
    ONCE,
    PER_RUN,
    PER_TENANT,
    PER_TOOL,
    READ_ONLY,
    REFUSE,
    RUN,
    SAY_NO_ACCESS,
    SILENT,
    STAGING,
    WHILE_STANDING,
    Affects,
    Approval,
    Blind,
    Breaker,
    Catalog,
    Connector,
    Currency,
    Effect,
    Email,
    Exposure,
    IfOtherFails,
    Instant,
    InvalidValue,
    Key,
    Keyed,
    Limit,
    LimitScope,
    Local,
    Lookup,
    Money,
    OnDifference,
    OverLimit,
    Priority,
    Read,
    Remote,
    Repeats,
    Reversal,
    Scope,
    Text,
    Tier,
    Tool,
    Upstream,
    Wording,
    days,
    hours,
    minutes,
    seconds,
    window,
)
from takeback.records import (
    Row,
    archive_rows,
    find_drift,
    mark_deleted,
    restore_rows,
    update_rows,
)
from takeback.testing import FakePayments, MailServer
from takeback_migrations import (
    ignore_takeback,
    installed_revision,
    latest_revision,
    upgrade,
)


class Refund(BaseModel):
    """Every type of argument that has more than one spelling."""

    charge_id: Text
    amount: Money
    currency: Currency
    to: Email
    at: Instant | None = None
    reason: Literal["duplicate", "fraudulent"] = "duplicate"

    @field_validator("charge_id")
    @classmethod
    def begins_well(cls, value: str) -> str:
        if not value.startswith("ch_"):
            raise InvalidValue("must begin with ch_", code="malformed", permitted=("ch_1",))
        return value


class Ticket(BaseModel):
    """The argument of a Local tool."""

    ticket_id: str
    note: str | None = None


def typed_refund(refund: Refund) -> None:
    assert_type(refund.amount, int)
    assert_type(refund.currency, str)
    assert_type(refund.to, str)
    assert_type(refund.at, datetime | None)


def decided(proposal: Proposal) -> Permission:
    assert_type(proposal.tier, Tier)
    assert_type(proposal.on_behalf_of, str | None)
    return Permission.ASK if proposal.repeat_of else Permission.ALLOW


def limited(limit: Limit) -> bool:
    assert_type(limit.scope, LimitScope)
    assert_type(limit.over, OverLimit)
    return limit.strict


def renamed(old: dict[str, Any]) -> dict[str, Any]:
    return {"ticket_id": old["ticket"], "note": None}


UPSTREAMS: Sequence[Upstream] = (KEYED(ttl=hours(24)), LOOKUP, BLIND)
EFFECTS: Sequence[Effect] = (
    Read(on_forbidden=OMIT),
    Read(on_forbidden=SAY_NO_ACCESS),
    Local(retention=days(30), repeats=WHILE_STANDING, quiet=minutes(10)),
    Local(repeats=ONCE),
    Remote(
        window=seconds(60),
        upstream=BLIND,
        reversal=CANCEL_ONLY,
        guard_s=1.0,
        attempt_seconds_max=10.0,
        attempts_max=3,
        retry_first_seconds=2.0,
        retry_seconds_max=60.0,
        connector="post",
        order_by="to",
        priority=HIGH,
        if_other_fails=GO_ON,
    ),
)
IF_OTHER_FAILS: Sequence[IfOtherFails] = (CANCEL, GO_ON, ASK)
PRIORITIES: Sequence[Priority] = (LOW, NORMAL, HIGH)
assert_type(BLIND, Blind)
assert_type(LOOKUP, Lookup)
assert_type(KEYED(ttl=hours(1)), Keyed)
assert_type(window(hours(24)), Scope)
assert_type(days(1), timedelta)

TIERS: Sequence[Tier] = (SILENT, GATED, LOOP)
EXPOSURES: Sequence[Exposure] = (READ_ONLY, STAGING, FULL, EXCLUDED)
REVERSALS: Sequence[Reversal] = (COMPENSATE, CANCEL_ONLY)
REPEATS: Sequence[Repeats] = (ONCE, WHILE_STANDING)
ON_DIFFERENCE: Mapping[str, OnDifference] = {"reason": CONFLICT, "at": DIFFERS}

CATALOG = Catalog(
    Tool(
        "refund",
        Refund,
        effect=Remote(upstream=KEYED(ttl=hours(24)), reversal=COMPENSATE),
        description="Gives money back.",
        key=Key(
            ("charge_id", "amount", "currency"),
            version=2,
            scope=FOREVER,
            former=(Key(("charge_id",), version=1, scope=RUN),),
        ),
        on_difference=ON_DIFFERENCE,
        approval=Approval(
            argument="amount", over=50_000, rows_over=10, repeats=True, expires=days(1)
        ),
        limits=(
            Limit(per=days(1), count=10, over=REFUSE, scope=PER_RUN, strict=True),
            Limit(money=100_000, currency="EUR", argument="amount", over=APPROVE, scope=PER_TOOL),
            Limit(per=hours(1), rows=5, scope=PER_TENANT),
        ),
        tier=GATED,
        inline=True,
        exposure=STAGING,
        triggers=("refund", "money back"),
        affects=Affects(kind="charge", id="charge_id"),
        wording=Wording(
            subject="Refund of {amount}",
            scheduled="is made at {until}",
            done="was made",
            taken_back="was taken back",
            undo="charges it again",
            leaves=("a line on the statement",),
        ),
    ),
    Tool(
        "close",
        Ticket,
        effect=Local(),
        description="Closes a ticket.",
        key=("ticket_id",),
        on_difference=DIFFERS,
        version=2,
        upgrades={1: renamed},
    ),
    connectors=(
        Connector("post", concurrency=4, rate=25.0, burst=10),
        Connector("bank", breaker=Breaker(failures=3, pause=seconds(10), pause_max=minutes(5))),
        Connector("attic", breaker=None),
    ),
)
assert_type(CATALOG.connectors, tuple[Connector, ...])
assert_type(CATALOG.get("refund"), Tool | None)
assert_type(CATALOG.tools, tuple[Tool, ...])


def refund(arguments: Refund, attempt: Attempt) -> Performed:
    assert_type(attempt.provider_key, str)
    assert_type(attempt.seconds_max, float)
    try:
        raise TimeoutError
    except TimeoutError as problem:
        raise OutcomeUnknown("no answer") from problem
    except ConnectionRefusedError as problem:
        raise NotDispatched("refused", retry_after_s=5.0) from problem
    except PermissionError as problem:
        raise NoAccess("not yours") from problem
    except ValueError as problem:
        raise Rejected("over the ceiling", alternatives=[{"amount": 5}]) from problem


def find_refund(arguments: Refund, attempt: Attempt) -> Performed | Absent | None:
    return Absent() if attempt.number == 1 else None


async def unrefund(original: Original, attempt: Attempt) -> dict[str, str]:
    assert_type(original.ref, str)
    return {"charged_again": original.result["refund_id"]}


def close(session: Session, arguments: Ticket) -> Performed:
    if not arguments.ticket_id:
        raise InvalidReference("ticket_id", "", message="is none of the tickets", permitted=["T-1"])
    return Performed(
        result={"was": "open"},
        affected=[Affected(kind="ticket", id=arguments.ticket_id, label=None)],
        affected_count=1,
        summary="It is closed.",
        leaves=("the mail about it",),
    )


def reopen(session: Session, original: Original) -> None:
    if original.result is None:
        raise NotRestorable("nobody knows what it was")
    raise RestoreConflict("it was closed anew", [{"field": "status", "now": "closed"}])


def look(session: Session, arguments: Ticket) -> Found:
    return Found(
        matches=[{"ref": "T-1", "status": "open"}],
        more_matches_exist=True,
        summary="One.",
        matches_count=12,
        totals={"tickets": 12, "paid": "1.50"},
        groups=[Group(label="open", count=12, totals={"hours": 3.5})],
        group_field="status",
        not_searched=["archive"],
        result="ref\nT-1\n",
    )


def delete(session: Session, arguments: Ticket) -> None:
    table = Table("tickets", MetaData())
    assert_type(archive_rows(session, table, table.c.id == 1), list[Row])
    assert_type(mark_deleted(session, table, table.c.id == 1), list[Row])
    changed = update_rows(session, table, table.c.id == 1, values={"status": "closed"})
    assert_type(changed, list[tuple[Row, Row]])


class Handlers:
    """What an app is handed: anything with a handler under each row's name."""

    refund = Handler(perform=refund, find=find_refund, restore=unrefund)
    close = Handler(perform=close, restore=restore_rows, drift=find_drift, preview=close)


def assembled() -> Takeback:
    settings = Settings(
        database_url="postgresql://127.0.0.1/shop",
        app="shop.app:app",
        tenant="shop",
        log="json",
        key_secret="of at least sixteen",
        lease_seconds=30.0,
        reconcile_seconds=31.0,
        memory_mb=512,
    )
    try:
        return Takeback(CATALOG, handlers=Handlers(), settings=settings, migrations=(upgrade,))
    except (InvalidCatalog, InvalidSettings) as problem:
        assert_type(problem.code, str)
        raise


def called(app: Takeback, session: Session, connection: Connection) -> None:
    raw: psycopg.Connection[Any] = psycopg.connect()
    for tx in (session, connection, raw, None):
        answer = app.call(
            tx,
            "refund",
            {"charge_id": "ch_1"},
            run="run-42",
            principal="agent:support",
            expect=None,
            repeat_of="refund-7F3K9QDM",
            after=["refund-7F3K9QDM"],
            not_before=datetime.now(UTC),
            savepoint=True,
        )
        assert_type(answer, Envelope)
    many = app.call_many(
        raw, [Call(tool="refund", arguments={}, repeat_of=None, after=())], run="run-42"
    )
    assert_type(many, list[Envelope])
    assert_type(app.restore(raw, "a-00000000", run=None, principal="dana", force=True), Envelope)


def answered(answer: Envelope) -> None:
    assert_type(answer.status, str)
    assert_type(answer.ref, str | None)
    assert_type(answer.replayed, bool)
    assert_type(answer.summary, str)
    assert_type(answer.affected, Sequence[Mapping[str, Any]])
    assert_type(answer.restore, Mapping[str, Any] | None)
    assert_type(answer.error, Mapping[str, Any] | None)
    assert_type(answer.code, str | None)
    assert_type(answer.full, Full)
    assert_type(answer.full.disclose(Door.INTERFACE), dict[str, Any])
    assert_type(answer.to_json(), str)
    assert_type(answer.to_dict(), dict[str, Any])
    mapping: Mapping[str, Any] = answer
    del mapping


def looked_at(app: Takeback) -> None:
    assert_type(app.status("a-00000000", tx=None), Envelope)
    try:
        shown = app.show("a-00000000")
    except NoSuchRef as problem:
        assert_type(problem.nearest, tuple[str, ...])
        raise
    assert_type(shown, Shown)
    assert_type(shown.envelope, Envelope)
    fault = app.fault("5d2d3aa4dd82c1b8", tx=None)
    assert_type(fault, Fault)
    assert_type(fault.details, str)
    listed = app.list(state="held", tool="refund", run="r", since=hours(2), limit=5, tx=None)
    assert_type(listed, list[dict[str, Any]])
    page = app.events(0, limit=100)
    assert_type(page, Page)
    assert_type(page.safe_position, int)
    assert_type(page.held_back_by, tuple[int, ...])


async def awaited(app: Takeback, session: AsyncSession, connection: AsyncConnection) -> None:
    for tx in (session, connection, None):
        assert_type(await app.acall(tx, "refund", {}, run="run-42"), Envelope)
        assert_type(await app.arestore(tx, "a-00000000", principal="dana"), Envelope)
    assert_type(await app.acall_many(session, []), Sequence[Envelope])
    assert_type(await app.astatus("a-00000000", tx=session), Envelope)
    assert_type(await app.ashow("a-00000000"), Shown)
    assert_type(await app.alist(state="held"), Sequence[dict[str, Any]])
    assert_type(await app.aevents(0, limit=10), Page)


def retried(app: Takeback, session: Session) -> Envelope:
    for _ in range(3):
        try:
            with session.begin():
                return app.call(session, "refund", {})
        except RetryTransaction as problem:
            assert_type(problem.retryable, bool)
        except TransactionAborted as problem:
            raise Unavailable from problem
    raise Unavailable


def operated(app: Takeback) -> None:
    assert_type(app.migrate(), tuple[str | None, str])
    worker = app.worker(name="w", sleep=lambda seconds: None, stopping=lambda: False)
    assert_type(worker.run(drain=True).performed, int)
    assert_type(app.verify(progress=lambda done, of: None).events, int)
    assert_type(app.rebuild().intents, int)
    assert_type(app.health().is_replica, bool)
    assert_type(app.database_url, str)
    assert_type(app.settings, Settings)
    assert_type(app.catalog, Catalog)
    app.close()


def caught(problem: TakebackError) -> bool:
    if isinstance(problem, HandlerError):
        return problem.retryable
    return isinstance(problem, Unavailable)


def mailed() -> Handler:
    def compose(arguments: Refund, attempt: Attempt) -> smtp.Email:
        return smtp.Email(sender="a@example.com", to=arguments.to, subject="s", text="t")

    server = smtp.SmtpServer.from_url("smtps://mail.example.com")
    assert_type(server.tls, smtp.Tls)
    return smtp.mailer(server, compose)


def migrated(connection: Connection) -> None:
    assert_type(upgrade("postgresql://127.0.0.1/shop"), tuple[str | None, str])
    assert_type(installed_revision(connection), str | None)
    assert_type(latest_revision(), str)
    assert_type(ignore_takeback("takeback", "schema"), bool)


def faked(payments: FakePayments) -> None:
    with MailServer() as mail:
        assert_type(mail.url, str)
    assert_type(payments.charges["ch_1"].refundable, int)
