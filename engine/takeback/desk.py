"""An app as whoever runs it works with it: set up, looked at, migrated, worked, proved.

Nothing happens at import or construction but checks: the database is looked for when it is first
needed, and an embedded one is started then.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

from takeback import embedded
from takeback import settings as settings_room
from takeback.audit.rebuild import Rebuilt, rebuild
from takeback.audit.verify import Verdict, verify
from takeback.catalog.limit_rule import require_limits
from takeback.catalog.registry import Registry, build
from takeback.client import braking, limiting, looking, resuming
from takeback.client.braking import Stopped, Thawed
from takeback.client.context import Context
from takeback.client.handing import hand_over, hand_over_lines
from takeback.client.looking import Shown
from takeback.client.owning import in_transaction
from takeback.client.recipe import Unfound, unfound
from takeback.client.resuming import Resumed
from takeback.declare import Catalog, Limit
from takeback.dispatch.pace import Pace, check_pace
from takeback.dispatch.worker import Worker
from takeback.ledger.backlog import Backlog, read_backlog
from takeback.ledger.barrier import Page
from takeback.ledger.braking import Freeze
from takeback.ledger.database import ANSWER_SECONDS_MAX, Database
from takeback.ledger.faults import Fault
from takeback.ledger.health import Health, look
from takeback.ledger.reading import Stored, refs_of
from takeback.ledger.remainder import Remainder, read_remainder, sign_of_workers
from takeback.ledger.sqlstate import translated
from takeback.ledger.transaction import Tx
from takeback.meter import Meter
from takeback.model.door import Door
from takeback.model.limit import Excess
from takeback.model.policy import Policy
from takeback.settings import Settings

Answer = TypeVar("Answer")

FREEZE_SECONDS_MAX = 5.0
"""How long a freeze waits for those who were about to begin something."""

PATIENCE_BEYOND_SECONDS = 15.0
"""What the server ends by itself is waited for a little longer than it may take."""


class Desk:
    """What an app is made of, and the verbs of those who run it.

    A method that takes ``tx`` works inside the transaction of that Session, Connection or psycopg
    connection, and never commits it; with None it opens and commits one of its own. Its twin with
    an ``a`` before the name takes an AsyncSession or AsyncConnection.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        handlers: ModuleType | object,
        settings: Settings | None = None,
        migrations: Sequence[Callable[[str], object]] = (),
        policy: Policy | None = None,
        limits: Sequence[Limit] = (),
        grants: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self.catalog = catalog
        self.registry: Registry = build(catalog, handlers)
        self._settings = settings
        self._migrations = tuple(migrations)
        self._policy = policy
        require_limits(limits)
        self._limits = tuple(limits)
        self._grants = {name: frozenset(whose) for name, whose in (grants or {}).items()}
        self._server: embedded.Server | None = None

    @cached_property
    def settings(self) -> Settings:
        """The settings in force; raises InvalidSettings."""
        if self._settings is not None:
            return self._settings
        return settings_room.load(os.environ, Path.cwd())

    @cached_property
    def database_url(self) -> str:
        """The URL of the ledger's database; starts the embedded one when none is set.

        Raises EmbeddedUnavailable.
        """
        if self.settings.database_url is not None:
            return self.settings.database_url
        directory = self.settings.data_directory
        self._server = embedded.acquire(Path(directory) if directory else None)
        return self._server.url

    @cached_property
    def context(self) -> Context:
        """What the rooms of motion are handed."""
        secret = self.settings.key_secret
        return Context(
            registry=self.registry,
            database=Database(self.database_url, answer_seconds_max=self._patience_seconds),
            tenant=self.settings.tenant,
            entropy=secrets.token_bytes,
            pause=time.sleep,
            monotonic=time.monotonic,
            key_secret=secret.encode() if secret else None,
            policy=self._policy,
            limits=self._limits,
            grants=self._grants,
        )

    def metered(self) -> Meter:
        """Has all that is carried out from now on counted, by the meter that it answers with."""
        meter = Meter(self.context.monotonic)
        self.context = replace(self.context, meter=meter)
        return meter

    @property
    def _patience_seconds(self) -> float:
        """A Local call that a person has approved may take a lease, and the server ends it then."""
        return max(ANSWER_SECONDS_MAX, self.settings.lease_seconds + PATIENCE_BEYOND_SECONDS)

    @property
    def pace(self) -> Pace:
        """How a worker of this app paces itself, as far as the settings say."""
        asked = self.settings.reconcile_seconds
        return Pace(
            lease=timedelta(seconds=self.settings.lease_seconds),
            reconcile=None if asked is None else timedelta(seconds=asked),
        )

    def show(self, ref: str, *, tx: object = None) -> Shown:
        """One intent with its timeline. Raises NoSuchRef and DatabaseUnavailable."""
        shown = self._read(tx, lambda t: looking.show(self.context, t, ref))
        hand_over(shown.envelope, Door.SHOW)
        return shown

    def list(
        self,
        *,
        state: str | None = None,
        tool: str | None = None,
        run: str | None = None,
        since: timedelta | None = None,
        limit: int = 50,
        tx: object = None,
    ) -> list[dict[str, Any]]:
        """The newest intents that match, newest first.

        Raises InvalidArguments and DatabaseUnavailable.
        """
        lines = self._read(
            tx,
            lambda t: looking.list_intents(
                self.context, t, state=state, tool=tool, run=run, since=since, limit=limit
            ),
        )
        return hand_over_lines(lines, Door.LIST)

    def fault(self, trace_id: str, *, tx: object = None) -> Fault:
        """What broke under the trace id of an answer: an operator's, and nothing for a model.

        Kept for a month. Raises NoSuchRef when nothing is kept under it, and DatabaseUnavailable.
        """
        return self._read(tx, lambda t: looking.find_fault(self.context, t, trace_id))

    def events(self, after: int = 0, *, limit: int = 1000) -> Page:
        """The log behind position ``after``, in order and without gaps.

        Go on from the page's ``safe_position``. Raises InvalidArguments, DatabaseUnavailable.
        """
        return looking.events(self.context, after, limit)

    def refs(self, events: Sequence[Stored]) -> Mapping[UUID, str]:
        """The refs of the intents that a page of the log tells of, by intent id.

        Raises DatabaseUnavailable.
        """
        with self.context.database.statements() as tx:
            return refs_of(tx, events)

    async def ashow(self, ref: str, *, tx: object = None) -> Shown:
        """``show`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(tx, lambda t: self.show(ref, tx=t))

    async def afault(self, trace_id: str, *, tx: object = None) -> Fault:
        """``fault`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(tx, lambda t: self.fault(trace_id, tx=t))

    async def alist(
        self,
        *,
        state: str | None = None,
        tool: str | None = None,
        run: str | None = None,
        since: timedelta | None = None,
        limit: int = 50,
        tx: object = None,
    ) -> Sequence[dict[str, Any]]:
        """``list`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(
            tx,
            lambda t: self.list(state=state, tool=tool, run=run, since=since, limit=limit, tx=t),
        )

    async def aevents(self, after: int = 0, *, limit: int = 1000) -> Page:
        """``events`` without blocking the loop."""
        return await asyncio.to_thread(self.events, after, limit=limit)

    def migrate(self) -> tuple[str | None, str]:
        """Brings the schema to this release, then runs the app's own steps; safe to repeat.

        Answers with the revisions before and after. Raises DatabaseUnavailable.
        """
        # Alembic costs a fifth of a second to import, and only this needs it.
        from takeback_migrations import upgrade

        url = self.context.database.url
        with translated():
            revisions: tuple[str | None, str] = upgrade(url)
            for step in self._migrations:
                step(url)
        return revisions

    def worker(
        self,
        *,
        name: str,
        sleep: Callable[[float], object],
        stopping: Callable[[], bool],
        pace: Pace | None = None,
    ) -> Worker:
        """An embedded worker. Raises InvalidSettings when its times contradict each other."""
        pace = pace or self.pace
        check_pace(pace, self.registry)
        return Worker(
            self.context,
            pace,
            name=name,
            sleep=sleep,
            stopping=stopping,
            monotonic=time.monotonic,
        )

    def freeze(
        self,
        *,
        reason: str,
        principal: str,
        tool: str | None = None,
        run: str | None = None,
        tenant: str | None = None,
        everything: bool = False,
        patience_seconds: float = FREEZE_SECONDS_MAX,
    ) -> Stopped:
        """Stops a tool, a run, a tenant or everything: once it has answered, nothing begins.

        Remote calls are recorded and held, Local ones are refused, taking back stays open. Whoever
        was about to begin is waited for so long; the freeze is in force all the same. Raises
        PersonRequired for an agent's principal, InvalidArguments, UnknownTool, DatabaseUnavailable.
        """
        scope = braking.scope_of(
            self.context, tool=tool, run=run, tenant=tenant, everything=everything
        )
        return braking.freeze(
            self.context,
            scope,
            reason=reason,
            principal=principal,
            patience_seconds=patience_seconds,
        )

    def thaw(
        self,
        *,
        reason: str,
        principal: str,
        tool: str | None = None,
        run: str | None = None,
        tenant: str | None = None,
        everything: bool = False,
        rate: float = braking.RATE,
        progress: Callable[[int, int], None] | None = None,
    ) -> Thawed:
        """Ends the freezes of exactly this, ``rate`` overdue intents a second. As ``freeze``."""
        scope = braking.scope_of(
            self.context, tool=tool, run=run, tenant=tenant, everything=everything
        )
        return braking.thaw(
            self.context, scope, reason=reason, principal=principal, rate=rate, progress=progress
        )

    def resume(self, connector: str, *, principal: str) -> Resumed:
        """Ends the pause of a connector whose provider is back before a probe has found it.

        Raises PersonRequired for an agent's principal, InvalidArguments, DatabaseUnavailable.
        """
        return resuming.resume(self.context, connector, principal=principal)

    def freezes(self) -> Sequence[Freeze]:
        """The freezes in force, of every tenant, the oldest first. Raises DatabaseUnavailable."""
        return braking.freezes(self.context)

    def limits_in_use(self) -> Sequence[tuple[str, Excess]]:
        """What stands under each limit of the rows and of the app, with its scope, now.

        Those of a run are left out: there is one for each. Raises DatabaseUnavailable.
        """
        return limiting.in_use(self.context)

    def verify(self, *, progress: Callable[[int, int], None] | None = None) -> Verdict:
        """Proves the log: chains, bodies, and that folding it gives the projection."""
        return verify(self.context.database, progress=progress)

    def rebuild(self, *, progress: Callable[[int, int], None] | None = None) -> Rebuilt:
        """Computes every projection anew from the log, and says which differed."""
        return rebuild(self.context.database, progress=progress)

    def health(self) -> Health:
        """The ledger's server, schema and queue, for operators. Raises DatabaseUnavailable."""
        with self.context.database.statements() as tx:
            return look(tx)

    def backlog(self) -> Backlog:
        """What is due and what stands still, of every tenant, for whoever watches; each count is
        bounded. Raises DatabaseUnavailable.
        """
        with self.context.database.statements() as tx:
            return read_backlog(tx)

    def remainder(self, *, all_tenants: bool = False) -> Remainder:
        """What is not over, by what it waits for. Raises DatabaseUnavailable."""
        tenant = None if all_tenants else self.settings.tenant
        with self.context.database.statements() as tx:
            return read_remainder(tx, tenant)

    def worker_seen_seconds(self) -> float | None:
        """How long ago any worker claimed, began or put off something, as far as the newest events
        tell; None where they tell of nothing. Raises DatabaseUnavailable.
        """
        with self.context.database.statements() as tx:
            return sign_of_workers(tx)

    def unfound(self) -> Sequence[Unfound]:
        """The tools whose newest intents no recipe of the catalog's keys leads to any more.

        Their calls would be done again when they come again. Raises DatabaseUnavailable.
        """
        with self.context.database.statements() as tx:
            return unfound(self.context, tx)

    def close(self) -> None:
        """Gives back the connections and, with them, the embedded Postgres."""
        if "context" in self.__dict__:
            self.context.database.close()
            del self.__dict__["context"]
        if self._server is not None:
            self._server.release()
            self._server = None
            del self.__dict__["database_url"]

    def _read(self, tx: object, work: Callable[[Tx], Answer]) -> Answer:
        return in_transaction(self.context, tx, work)

    async def _beside(self, tx: object, work: Callable[[object], Answer]) -> Answer:
        if isinstance(tx, async_scoped_session):
            tx = tx()
        if isinstance(tx, AsyncSession):
            return await tx.run_sync(work)
        if isinstance(tx, AsyncConnection):
            return await tx.run_sync(work)
        if tx is None:
            return await asyncio.to_thread(work, None)
        return work(tx)
