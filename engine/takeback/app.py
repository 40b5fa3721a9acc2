"""The composition root: a catalog, its handlers and the settings become an app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from takeback.client import amending, approving, batching, calling, looking, resolving, restoring
from takeback.client.batching import Call
from takeback.client.handing import hand_over, hand_over_all
from takeback.client.preview_tool import PREVIEW, call_preview, preview
from takeback.client.request import Terms
from takeback.client.restore_tool import RESTORE
from takeback.desk import Desk
from takeback.model.door import Door
from takeback.model.envelope import Envelope
from takeback.model.principal import UNNAMED


class Takeback(Desk):
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
        after: Sequence[str] = (),
        not_before: datetime | None = None,
        on_behalf_of: str | None = None,
        savepoint: bool | None = None,
    ) -> Envelope:
        """Calls a tool: records the intent in ``tx``, and performs it there when it is Local.

        ``principal`` calls, ``on_behalf_of`` whom, in which ``run``: all three stand in the log.
        ``expect`` is what a preview answered: refused when anything else would be affected.
        ``repeat_of`` is the ref of an equal call that is meant to happen once more. A remote effect
        may wait: for the success of the intents of the refs ``after``, for the instant
        ``not_before``. A savepoint
        round the call keeps the transaction usable after a refusal; None sets one for Local
        effects. Refusals are envelopes. Raises RetryTransaction when the caller's transaction is
        lost and has to run again as a whole, and HandlerError when a Local handler refuses and
        ``savepoint`` is False.

        The tool ``restore``, which no catalog declares, is what an envelope's ``restore`` calls;
        the tool ``preview`` answers what ``preview`` does.
        """
        caller = principal or UNNAMED
        beside: dict[str, Any] = {"repeat_of": repeat_of, "expect": expect, "after": after or None}
        beside["not_before"] = not_before
        if tool == PREVIEW.name:
            terms = Terms(run=run, principal=caller, on_behalf_of=on_behalf_of)
            previewed = call_preview(self.context, tx, arguments, beside, terms)
            return hand_over(previewed, Door.CALL)
        if tool == RESTORE.name:
            restored = restoring.call_restore(
                self.context, tx, arguments, beside, run=run, principal=caller
            )
            return hand_over(restored, Door.CALL)
        answer = calling.call(
            self.context,
            tx,
            tool,
            arguments,
            Terms(
                run=run,
                principal=caller,
                on_behalf_of=on_behalf_of,
                repeat_of=repeat_of,
                expect=expect,
                after=after,
                not_before=not_before,
            ),
            savepoint=savepoint,
        )
        return hand_over(answer, Door.CALL)

    def call_many(
        self,
        tx: object,
        calls: Sequence[Call],
        *,
        run: str | None = None,
        principal: str | None = None,
        on_behalf_of: str | None = None,
    ) -> list[Envelope]:
        """Calls many tools in one transaction, in few statements; answers in the same order."""
        answers = batching.call_many(
            self.context,
            tx,
            calls,
            run=run,
            principal=principal or UNNAMED,
            on_behalf_of=on_behalf_of,
        )
        return hand_over_all(answers, Door.CALL_MANY)

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
        answer = restoring.restore(
            self.context,
            tx,
            ref,
            run=run,
            principal=principal or UNNAMED,
            force=force,
        )
        return hand_over(answer, Door.RESTORE)

    def amend(
        self,
        tx: object,
        ref: str,
        arguments: Mapping[str, Any],
        *,
        run: str | None = None,
        principal: str | None = None,
    ) -> Envelope:
        """Says the call of ``ref``, which has not begun, otherwise; answers with the new one.

        ``arguments`` are those that change. The first is taken back and recorded anew, with a fresh
        window, both or neither; the same amendment again is a replay. Raises RetryTransaction.
        """
        answer = amending.amend(
            self.context, tx, ref, arguments, run=run, principal=principal or UNNAMED
        )
        return hand_over(answer, Door.CALL)

    def preview(
        self,
        tx: object,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        run: str | None = None,
        principal: str | None = None,
        on_behalf_of: str | None = None,
    ) -> Envelope:
        """What a call would become now and what it would affect; nothing of it stays.

        Its ``expect`` binds a call to that: hand it to ``call``. Refused as the call itself would
        be. With ``tx`` it sees what that has not committed yet. Raises RetryTransaction.
        """
        terms = Terms(run=run, principal=principal or UNNAMED, on_behalf_of=on_behalf_of)
        answer = preview(self.context, tx, tool, arguments, terms)
        return hand_over(answer, Door.PREVIEW)

    def approve(
        self, tx: object, ref: str, *, principal: str, expect: str | None = None
    ) -> Envelope:
        """A person says yes to the call of ``ref``, which waits for that; its window starts now.

        ``expect`` is that of the request which was looked at (``show``): refused when another thing
        is asked. Approving twice is once. Refusals are envelopes. Raises RetryTransaction.
        """
        answer = approving.decide(
            self.context, tx, ref, approving.YES, principal=principal, expect=expect
        )
        return hand_over(answer, Door.DECIDE)

    def deny(self, tx: object, ref: str, *, principal: str, reason: str | None = None) -> Envelope:
        """A person says no: the call of ``ref`` never happens. Raises RetryTransaction.

        ``reason`` is told to persons, and can be forgotten.
        """
        answer = approving.decide(
            self.context, tx, ref, approving.NO, principal=principal, reason=reason
        )
        return hand_over(answer, Door.DECIDE)

    def decide(
        self,
        tx: object,
        ref: str,
        decision: object,
        *,
        principal: str,
        expect: str | None = None,
        reason: str | None = None,
    ) -> Envelope:
        """``approve`` where ``decision`` is that very word, else ``deny``.

        For whoever is handed a decision by others: none, null or an unknown one means no, and the
        answer says what it was taken for. Raises RetryTransaction.
        """
        answer = approving.decide(
            self.context, tx, ref, decision, principal=principal, expect=expect, reason=reason
        )
        return hand_over(answer, Door.DECIDE)

    def retry(self, tx: object, ref: str, *, principal: str) -> Envelope:
        """A person has what is parked, or has failed, tried again: the next attempt of the intent.

        What may have happened may happen twice: who says so knows better. Twice is once. Refusals
        are envelopes. Raises RetryTransaction.
        """
        answer = resolving.retry(self.context, tx, ref, principal=principal)
        return hand_over(answer, Door.DECIDE)

    def resolve(
        self, tx: object, ref: str, as_: str, *, principal: str, note: str | None = None
    ) -> Envelope:
        """A person has found out what became of what is in doubt, or parked.

        ``as_`` is "succeeded" or "failed"; ``note`` says how they know, for persons, and can be
        forgotten. Twice is once. Refusals are envelopes. Raises RetryTransaction.
        """
        answer = resolving.resolve(self.context, tx, ref, as_, principal=principal, note=note)
        return hand_over(answer, Door.DECIDE)

    def status(self, ref: str, *, tx: object = None) -> Envelope:
        """What became of a ref: the lean answer as it is now."""
        return hand_over(looking.ask_status(self.context, tx, ref), Door.STATUS)

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
        after: Sequence[str] = (),
        not_before: datetime | None = None,
        on_behalf_of: str | None = None,
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
                after=after,
                not_before=not_before,
                on_behalf_of=on_behalf_of,
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
        on_behalf_of: str | None = None,
    ) -> Sequence[Envelope]:
        """``call_many`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(
            tx,
            lambda t: self.call_many(
                t, calls, run=run, principal=principal, on_behalf_of=on_behalf_of
            ),
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

    async def aamend(
        self,
        tx: object,
        ref: str,
        arguments: Mapping[str, Any],
        *,
        run: str | None = None,
        principal: str | None = None,
    ) -> Envelope:
        """``amend`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(
            tx, lambda t: self.amend(t, ref, arguments, run=run, principal=principal)
        )

    async def apreview(
        self,
        tx: object,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        run: str | None = None,
        principal: str | None = None,
        on_behalf_of: str | None = None,
    ) -> Envelope:
        """``preview`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(
            tx,
            lambda t: self.preview(
                t, tool, arguments, run=run, principal=principal, on_behalf_of=on_behalf_of
            ),
        )

    async def aapprove(
        self, tx: object, ref: str, *, principal: str, expect: str | None = None
    ) -> Envelope:
        """``approve`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(
            tx, lambda t: self.approve(t, ref, principal=principal, expect=expect)
        )

    async def adeny(
        self, tx: object, ref: str, *, principal: str, reason: str | None = None
    ) -> Envelope:
        """``deny`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(
            tx, lambda t: self.deny(t, ref, principal=principal, reason=reason)
        )

    async def adecide(
        self,
        tx: object,
        ref: str,
        decision: object,
        *,
        principal: str,
        expect: str | None = None,
        reason: str | None = None,
    ) -> Envelope:
        """``decide`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(
            tx,
            lambda t: self.decide(
                t, ref, decision, principal=principal, expect=expect, reason=reason
            ),
        )

    async def aretry(self, tx: object, ref: str, *, principal: str) -> Envelope:
        """``retry`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(tx, lambda t: self.retry(t, ref, principal=principal))

    async def aresolve(
        self, tx: object, ref: str, as_: str, *, principal: str, note: str | None = None
    ) -> Envelope:
        """``resolve`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(
            tx, lambda t: self.resolve(t, ref, as_, principal=principal, note=note)
        )

    async def astatus(self, ref: str, *, tx: object = None) -> Envelope:
        """``status`` for an AsyncSession or AsyncConnection, or for none."""
        return await self._beside(tx, lambda t: self.status(ref, tx=t))
