"""Claims what is due, in batches, under a lease. Limits are enforced here, and freezes.

Both are looked at behind locks: a freeze behind the barrier, the sums of a limit behind the lock of
its scope. What is frozen, and what somebody else is summing up, is left as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from uuid import UUID

from takeback.catalog.registry import Bound
from takeback.client.body import refusal_body
from takeback.client.context import Context
from takeback.client.limiting import BUSY, Entered, counted, release
from takeback.client.local import sealed_body
from takeback.client.permission import person_first
from takeback.declare import APPROVE, Remote
from takeback.dispatch.governor import Governor
from takeback.dispatch.pace import Pace
from takeback.dispatch.queue import Queues, fitting
from takeback.dispatch.turn import in_turn
from takeback.dispatch.work import (
    Identity,
    Unfit,
    Work,
    identity,
    is_keyed,
    load,
    read_given,
    writing_tools,
)
from takeback.ledger.appending import Change, append
from takeback.ledger.beginning import Owner, begin_many
from takeback.ledger.claiming import EVER_US, Agenda, Waiting, agenda, lock_due, waiting
from takeback.ledger.locking import CALLED_WITH, FROZEN, NOW, Taken, lock_wanted, taken_of
from takeback.ledger.projection import PLACE_OF
from takeback.ledger.transaction import Row, Tx
from takeback.log import logger
from takeback.model import command as commands
from takeback.model.chain import body_digest
from takeback.model.decide import decide
from takeback.model.evolve import foresee
from takeback.model.intent import State, why_not_begin
from takeback.model.limit import Over

_TENANT, _ID, _DUE_AT = PLACE_OF["tenant"], PLACE_OF["id"], PLACE_OF["due_at"]
_TOOL, _TOOL_VERSION = PLACE_OF["tool"], PLACE_OF["tool_version"]
_APART = PLACE_OF["approved_by"], PLACE_OF["ordering"]
"""What sets an intent apart: it is run with what a person saw, or one at a time."""

_RUNS = (State.CLAIMED, State.EXECUTING)
"""Where a claim leaves what is to be carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What a claim took: ``count`` intents, and ``works`` for those that can be run.

    ``taken`` are their rows as they were before, ``left`` the rows of those that it passed by
    although they are due.
    """

    count: int
    works: Sequence[Work]
    taken: Sequence[Row] = ()
    left: Sequence[Row] = ()

    @property
    def lateness(self) -> Mapping[Identity, float]:
        """For how many seconds each of the ``taken`` had been due."""
        return {
            (row[_TENANT], UUID(row[_ID])): (row[NOW] - row[_DUE_AT]) / 1_000_000
            for row in self.taken
        }

    @property
    def left_over(self) -> set[Identity]:
        """Those that it passed by, and that nobody has frozen."""
        return {(row[_TENANT], UUID(row[_ID])) for row in self.left if not row[FROZEN]}


@dataclass(frozen=True)
class Dispatcher:
    """Finds work for one worker, which is named ``worker`` in the log."""

    context: Context
    pace: Pace
    worker: str
    _busy: set[str] = field(default_factory=set, init=False)

    def run_once(self, limit: int) -> Claimed:
        """Claims at most ``limit`` due intents of the tools that this worker has, and commits.

        What goes to a provider that keeps our key is begun in the same transaction: were the
        worker to die before the call, a repeat under the key would be harmless. What can't be run
        is parked there, and what is over a limit waits for a person or is refused.
        """
        limit = min(limit, self.pace.batch_max)
        with self.context.database.internal_transaction() as tx:
            may_hide_some = self._queues.has_passed
            passed_by = frozenset(self._busy)
            claimed = self._claim_due(tx, limit, passed_by)
            if may_hide_some and not claimed.count and not claimed.left:
                self._queues.look_everywhere()
                claimed = self._claim_due(tx, limit, passed_by)
        self._queues.pass_by(claimed.taken, claimed.left)
        return claimed

    def claim(self, wanted: Sequence[Identity]) -> Claimed:
        """Claims those of ``wanted`` that are due, as ``run_once`` does; the rest is left as it is.

        What nobody may claim now (held, claimed, settled, unknown, frozen) is no work. What its
        lane has no room for is among the ``left``.
        """
        with self.context.database.internal_transaction() as tx:
            rooms = self._governor.rooms_for(tx, wanted)
            due = lock_wanted(tx, self._tools, wanted, tenant=self.tenant)
            kept = fitting(due, rooms)
            claimed = self._claim_taken(tx, kept)
        kept_ids = {row[_ID] for row in kept}
        more = [row for row in due if row[_ID] not in kept_ids]
        return replace(claimed, left=[*claimed.left, *more])

    def look_everywhere(self) -> None:
        """Has the next look find what lies below the marks, and lanes that nobody has named."""
        self._queues.look_everywhere()

    def agenda(self) -> Agenda:
        """When there is something to do next."""
        with self.context.database.statements(for_work=True) as tx:
            return self._look(tx)

    def is_rationed(self, agenda: Agenda) -> bool:
        """Whether something is due, and waits for nothing but its turn at a connector's rate."""
        rationed = self._governor.rationed
        return any(
            queue.lane in rationed and EVER_US < queue.low_us <= agenda.now_us
            for queue in agenda.queues
        )

    def waiting(self, limit: int) -> Waiting:
        """What there is to be claimed now, for whoever wakes others: ``limit`` of each queue."""
        with self.context.database.internal_transaction() as tx:
            if not self._queues.has_looked:
                self._look(tx)
            queues = self._queues.to_claim(self._governor.rooms_seen(tx), limit)
            return waiting(tx, self._tools, queues, tenant=self.tenant)

    @property
    def tenant(self) -> str | None:
        """Whose intents are carried out; None is every tenant's."""
        return None if self.pace.all_tenants else self.context.tenant

    def _look(self, tx: Tx) -> Agenda:
        everywhere = not self._queues.has_looked
        found = agenda(
            tx,
            self._tools,
            self._queues.to_look_at(),
            everywhere=everywhere,
            tenant=self.tenant,
        )
        if everywhere:
            self._queues.learn(found)
        return found

    def _claim_due(self, tx: Tx, limit: int, passed_by: Collection[str]) -> Claimed:
        if not self._queues.has_looked:
            self._look(tx)
        tools = {name: version for name, version in self._tools.items() if name not in passed_by}
        queues = self._queues.to_claim(self._governor.rooms(tx), limit)
        due = lock_due(tx, tools, queues, limit, tenant=self.tenant)
        self._busy.clear()
        return self._claim_taken(tx, due)

    def _claim_taken(self, tx: Tx, due: Sequence[Row]) -> Claimed:
        begun = self._begin_plain(tx, due)
        others = in_turn(
            tx, [taken_of(row) for row in due if row[_ID] not in begun and not row[FROZEN]]
        )
        loaded = load(self.context, tx, [one.intent for one in others])
        intents = append(tx, self._changes(tx, others, loaded))
        runnable = begun | {
            str(intent.id): what.with_intent(intent)
            for intent in intents
            if isinstance(what := loaded[identity(intent)], Work) and intent.state in _RUNS
        }
        works = [runnable[row[_ID]] for row in due if row[_ID] in runnable]
        changed = {*begun, *(str(intent.id) for intent in intents)}
        return Claimed(
            count=len(begun) + len(intents),
            works=self._governor.took(tx, works),
            taken=[row for row in due if row[_ID] in changed],
            left=[row for row in due if row[_ID] not in changed],
        )

    def _begin_plain(self, tx: Tx, due: Sequence[Row]) -> dict[str, Work]:
        """Claims and begins at once what nothing sets apart: works by the ids of their intents."""
        plain = []
        for row in due:
            bound = self._plain_tools.get((row[_TOOL], row[_TOOL_VERSION]))
            if bound is None or row[FROZEN] or any(row[place] is not None for place in _APART):
                continue
            given = read_given(bound, row[CALLED_WITH])
            if given is not None:
                plain.append((row, bound, given))
        owner = Owner(worker=self.worker, lease=self.pace.lease)
        intents = begin_many(tx, [row for row, _, _ in plain], owner)
        return {
            row[_ID]: Work(
                intent=intent,
                bound=bound,
                face=bound.handler.perform,
                given=given.model,
                canonical=given.canonical,
            )
            for (row, bound, given), intent in zip(plain, intents, strict=True)
            if intent is not None
        }

    def _changes(
        self, tx: Tx, taken: Sequence[Taken], loaded: Mapping[Identity, Work | Unfit]
    ) -> list[Change]:
        """What becomes of each; a tool whose sums are busy is passed by, and once more after."""
        found = [(one, loaded[identity(one.intent)]) for one in taken]
        limited = [
            Entered(bound=what.bound, intent=one.intent, arguments=what.canonical)
            for one, what in found
            if isinstance(what, Work) and what.original is None
        ]
        hindrances = release(self.context, tx, limited)
        changes = []
        for one, what in found:
            hindrance = hindrances.get(one.intent.id)
            if hindrance == BUSY:
                self._busy.add(one.intent.tool)
            elif isinstance(hindrance, Over) and isinstance(what, Work):
                changes.append(self._hold_back(one, what, hindrance))
            else:
                changes.append(self._claim(one, what))
        return changes

    def _hold_back(self, taken: Taken, work: Work, over: Over) -> Change:
        """Over a limit: a person decides, or it is refused for good."""
        claim = commands.Claim(worker=self.worker, lease=self.pace.lease)
        events = list(decide(taken.intent, claim, taken.now))
        claimed = foresee(taken.intent, events, taken.now)
        logger.warning("over_limit", ref=claimed.ref, becomes=over.wants.value)
        if over.wants is APPROVE:
            person = person_first(work.bound.tool, "limit")
            ask = commands.AskApproval(cause=person.cause, approval_for=person.stays_open)
            return Change(taken=taken, events=[*events, *decide(claimed, ask, taken.now)])
        problem = over.error()
        body = sealed_body(
            self.context, "error", refusal_body(problem.code, str(problem), problem.left)
        )
        refuse = commands.Refuse(code=problem.code, error=body_digest(body.salt, body.text))
        events += decide(claimed, refuse, taken.now)
        return Change(taken=taken, events=events, bodies=(body,))

    def _claim(self, taken: Taken, what: Work | Unfit) -> Change:
        claim = commands.Claim(worker=self.worker, lease=self.pace.lease)
        events = list(decide(taken.intent, claim, taken.now))
        claimed = foresee(taken.intent, events, taken.now)
        cause = what.cause if isinstance(what, Unfit) else why_not_begin(claimed, taken.now)
        if cause is not None:
            logger.error("intent_parked", ref=claimed.ref, cause=cause)
            events += decide(claimed, commands.Park(cause=cause), taken.now)
        elif isinstance(what, Work) and what.is_keyed:
            events += decide(claimed, commands.Begin(lease=self.pace.lease), taken.now)
        return Change(taken=taken, events=events)

    @cached_property
    def _governor(self) -> Governor:
        return Governor(self.context, self.pace)

    @cached_property
    def _plain_tools(self) -> Mapping[tuple[str, int], Bound]:
        """Tools, at the versions of their rows, whose calls are begun with the claim and counted
        by no limit.
        """
        return {
            (bound.name, bound.tool.version): bound
            for bound in self.context.registry
            if is_keyed(bound) and not counted(self.context, bound.tool)
        }

    @cached_property
    def _queues(self) -> Queues:
        effects = [bound.effect for bound in self.context.registry]
        return Queues({e.connector for e in effects if isinstance(e, Remote) and e.connector})

    @cached_property
    def _tools(self) -> Mapping[str, int]:
        return writing_tools(self.context.registry)
