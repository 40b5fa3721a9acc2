"""The composition root: a catalog, its handlers and the settings become an app.

Nothing happens at import or construction but checks: the database is looked for when it is first
needed, and an embedded one is started then.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
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
from takeback.catalog.registry import Registry, build
from takeback.client import batching, calling, looking, restoring
from takeback.client.batching import Call
from takeback.client.context import Context
from takeback.client.looking import Shown
from takeback.client.owning import in_own_transaction
from takeback.client.refusing import refuse
from takeback.client.restore_tool import RESTORE
from takeback.declare import Catalog, Limit
from takeback.dispatch.limits import Limits, check_limits
from takeback.dispatch.worker import Worker
from takeback.ledger.barrier import Page
from takeback.ledger.database import Database
from takeback.ledger.health import Health, look
from takeback.ledger.reading import Stored, refs_of
from takeback.ledger.sqlstate import translated
from takeback.ledger.transaction import Tx, adopt
from takeback.model import errors
from takeback.model.envelope import Envelope
from takeback.model.policy import Policy
from takeback.settings import Settings

PRINCIPAL_UNKNOWN = "agent:unknown"

Answer = TypeVar("Answer")


class Takeback:
    """An app: the tools of ``catalog``, carried out by ``handlers``, on one ledger.

    ``handlers`` is a module (or any object) that has a handler under each row's name. ``settings``
    None reads the environment and pyproject.toml when they are first needed. ``migrations`` are
    the app's own steps of ``takeback migrate``: each is called with the database URL and may be
    called again at any time.

    ``policy`` is asked of every call that writes, and answers allow, ask or refuse; whatever else
    it does means that a person decides. ``limits`` add up the calls of every tool. ``grants`` says
    for an agent's principal whose intents it may take back beside those of its own principal and
    run: other principals, or "*" for everybody's.

    A method that takes ``tx`` works inside the transaction of that Session, Connection or psycopg
    connection, and never commits it; with None it opens and commits one of its own. Its twin with
    an ``a`` before the name takes an AsyncSession or AsyncConnection.

    Raises InvalidCatalog when a row or a handler can't be used.
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
            database=Database(self.database_url),
            tenant=self.settings.tenant,
            entropy=secrets.token_bytes,
            pause=time.sleep,
            monotonic=time.monotonic,
            key_secret=secret.encode() if secret else None,
            policy=self._policy,
            limits=self._limits,
            grants=self._grants,
        )

    def call(
        self,
        tx: object,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        run: str | None = None,
        principal: str | None = None,
        expect: str | None = None,
        repeat_of: str | None = None,
        not_before: datetime | None = None,
        savepoint: bool | None = None,
    ) -> Envelope:
        """Calls a tool: records the intent in ``tx``, and performs it there when it is Local.

        ``repeat_of`` is the ref of an equal call that is meant to happen once more. A savepoint
        round the call keeps the transaction usable after a refusal; None sets one for Local
        effects. Refusals are envelopes. Raises RetryTransaction when the caller's transaction is
        lost and has to run again as a whole, and HandlerError when a Local handler refuses and
        ``savepoint`` is False.

        The tool ``restore``, which no catalog declares, is what an envelope's ``restore`` calls.
        """
        if tool == RESTORE.name:
            return restoring.call_restore(
                self.context,
                tx,
                arguments,
                {"repeat_of": repeat_of, "expect": expect, "not_before": not_before},
                run=run,
                principal=principal or PRINCIPAL_UNKNOWN,
            )
        return calling.call(
            self.context,
            tx,
            tool,
            arguments,
            run=run,
            principal=principal or PRINCIPAL_UNKNOWN,
            repeat_of=repeat_of,
            expect=expect,
            not_before=not_before,
            savepoint=savepoint,
        )

    def call_many(
        self,
        tx: object,
        calls: Sequence[Call],
        *,
        run: str | None = None,
        principal: str | None = None,
    ) -> list[Envelope]:
        """Calls many tools in one transaction, in few statements; answers in the same order."""
        return batching.call_many(
            self.context, tx, calls, run=run, principal=principal or PRINCIPAL_UNKNOWN
        )

    def restore(
        self,
        tx: object,
        ref: str,
        *,
        run: str | None = None,
        principal: str | None = None,
        force: bool = False,
    ) -> Envelope:
        """Takes back the intent of ``ref``; asking twice is once. Raises RetryTransaction."""
        return restoring.restore(
            self.context,
            tx,
            ref,
            run=run,
            principal=principal or PRINCIPAL_UNKNOWN,
            force=force,
        )

    def status(self, ref: str, *, tx: object = None) -> Envelope:
        """What became of a ref: the lean answer as it is now."""
        trace_id = self.context.entropy(8).hex()
        try:
            return self._read(tx, lambda t: looking.status(self.context, t, ref, trace_id))
        except (errors.CallerError, errors.Unavailable) as problem:
            return refuse(problem, trace_id)

    def show(self, ref: str, *, tx: object = None) -> Shown:
        """One intent with its timeline. Raises NoSuchRef and DatabaseUnavailable."""
        trace_id = self.context.entropy(8).hex()
        return self._read(tx, lambda t: looking.show(self.context, t, ref, trace_id))

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
        """The newest intents that match, newest first. Raises DatabaseUnavailable."""
        return self._read(
            tx,
            lambda t: looking.list_intents(
                self.context, t, state=state, tool=tool, run=run, since=since, limit=limit
            ),
        )

    def events(self, after: int = 0, *, limit: int = 1000) -> Page:
        """The log behind position ``after``, in order and without gaps.

        Go on from the page's ``safe_position``. Raises DatabaseUnavailable.
        """
        return looking.events(self.context, after, limit)

    def refs(self, events: Sequence[Stored]) -> Mapping[UUID, str]:
        """The refs of the intents that a page of the log tells of, by intent id.

        Raises DatabaseUnavailable.
        """
        with self.context.database.statements() as tx:
            return refs_of(tx, events)

    async def acall(
        self,
        tx: object,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        run: str | None = None,
        principal: str | None = None,
        expect: str | None = None,
        repeat_of: str | None = None,
        not_before: datetime | None = None,
        savepoint: bool | None = None,
    ) -> Envelope:
        """``call`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(
            tx,
            lambda t: self.call(
                t,
                tool,
                arguments,
                run=run,
                principal=principal,
                expect=expect,
                repeat_of=repeat_of,
                not_before=not_before,
                savepoint=savepoint,
            ),
        )

    async def acall_many(
        self,
        tx: object,
        calls: Sequence[Call],
        *,
        run: str | None = None,
        principal: str | None = None,
    ) -> Sequence[Envelope]:
        """``call_many`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(
            tx, lambda t: self.call_many(t, calls, run=run, principal=principal)
        )

    async def arestore(
        self,
        tx: object,
        ref: str,
        *,
        run: str | None = None,
        principal: str | None = None,
        force: bool = False,
    ) -> Envelope:
        """``restore`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(
            tx, lambda t: self.restore(t, ref, run=run, principal=principal, force=force)
        )

    async def astatus(self, ref: str, *, tx: object = None) -> Envelope:
        """``status`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(tx, lambda t: self.status(ref, tx=t))

    async def ashow(self, ref: str, *, tx: object = None) -> Shown:
        """``show`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(tx, lambda t: self.show(ref, tx=t))

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
        limits: Limits | None = None,
    ) -> Worker:
        """An embedded worker. Raises InvalidSettings when its times contradict each other."""
        limits = limits or Limits(lease=timedelta(seconds=self.settings.lease_seconds))
        check_limits(limits, self.registry)
        return Worker(
            self.context,
            limits,
            name=name,
            sleep=sleep,
            stopping=stopping,
            monotonic=time.monotonic,
        )

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
        if tx is None:
            return in_own_transaction(self.context, work)
        return work(adopt(tx))

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
