"""A person's word on a call that waits for it: yes, no, and what is told to who comes too late.

To approve, to deny, to let it expire and to cancel it are one race on one row: whoever locks it
first decides, and the others are told who did, and when. A yes is bound to what was asked (see
``model.approval``), and given only while the stored bodies are still the ones recorded.

    the word "approve"        yes
    anything else, or none    no

The same decision again changes nothing and is answered with the intent as it is now.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from takeback.client.amendment import tell
from takeback.client.body import words
from takeback.client.calling import BUSY_PAUSES
from takeback.client.context import Context
from takeback.client.course import Course
from takeback.client.face import Broke, try_face
from takeback.client.faulting import as_it_is, guarded
from takeback.client.local import sealed_body
from takeback.client.looking import find, row_of
from takeback.client.owning import in_transaction
from takeback.client.refusing import refuse, refuse_arguments
from takeback.client.ruling import lock_patiently, require_person, ruling_violations
from takeback.ledger.appending import Body, Change, append
from takeback.ledger.locking import Taken
from takeback.ledger.reading import Entry
from takeback.ledger.snapshot import Snapshot, read_snapshots
from takeback.ledger.transaction import Tx
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.approval import EXPECT_LENGTH, Asked, Decided, is_lapsed
from takeback.model.chain import body_digest
from takeback.model.decide import decide as decide_on
from takeback.model.envelope import Envelope, Replay
from takeback.model.intent import Intent, State
from takeback.model.key import canonical_bytes
from takeback.model.moment import clock, iso
from takeback.model.principal import is_same
from takeback.model.violation import shown

YES = "approve"
NO = "deny"

_TOLD = {
    "approved": "{by} approved {ref} at {at}; `status` says whether it can be taken back",
    "denied": "{by} denied {ref} at {at}; it never happens",
    "expired": "nobody decided about {ref} in time; the request was over at {at}",
    "cancelled": "{by} took {ref} back at {at}; it never happens",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """Who wants what decided how. ``pauses`` are what is left of the patience with others.

    ``written`` are the versions of the intent that this very ruling has written: they tell it from
    an earlier one, also when the answer to its commit was lost.
    """

    ref: str
    word: Literal["approve", "deny"]
    principal: str
    expect: str | None
    reason: str | None
    trace_id: str
    pauses: Iterator[float]
    written: list[int] = field(default_factory=list)


def decide(
    context: Context,
    given: object,
    ref: str,
    decision: object,
    *,
    principal: str,
    expect: str | None = None,
    reason: str | None = None,
) -> Envelope:
    """Decides about the intent of ``ref``, in the transaction ``given`` or in one of its own.

    Answers with the intent as it is then, refusals and faults included. ``expect`` is that of the
    request that was looked at. Raises RetryTransaction and TransactionAborted.
    """
    # Its text is compared, never what it says of itself to be equal to.
    said = str.__str__(decision) if isinstance(decision, str) else None
    word: Literal["approve", "deny"] = "approve" if said == YES else "deny"
    answered = guarded(
        context,
        Course(tool=word, principal=principal),
        lambda inside: _decided(
            inside, given, ref, word, principal=principal, expect=expect, reason=reason
        ),
        as_it_is,
    )
    if said in (YES, NO):
        return answered
    received = try_face(words, decision)
    told = type(decision).__name__ if isinstance(received, Broke) else received
    return answered.amended({"decision_received": shown(told), "taken_for": NO})


def _decided(
    context: Context,
    given: object,
    ref: str,
    word: Literal["approve", "deny"],
    *,
    principal: str,
    expect: str | None,
    reason: str | None,
) -> Envelope:
    trace_id = context.draw_trace_id()
    violations = ruling_violations(principal, expect=expect, reason=reason)
    if violations:
        return refuse_arguments(word, None, violations, trace_id)
    ruling = Ruling(
        ref=ref,
        word=word,
        principal=principal,
        expect=None if expect is None else expect.strip().lower(),
        reason=reason,
        trace_id=trace_id,
        pauses=iter(BUSY_PAUSES),
    )
    try:
        require_person(principal, word)
        return in_transaction(context, given, lambda tx: decide_in(context, tx, ruling))
    except errors.TakebackError as problem:
        return refuse(problem, trace_id)


def decide_in(context: Context, tx: Tx, ruling: Ruling) -> Envelope:
    """The decision inside an open transaction. What is refused holds no lock any more."""
    entry = find(context, tx, ruling.ref)
    if entry.intent.state is State.AWAITING_APPROVAL:
        _require_another(ruling, entry.intent)
        with tx.savepoint():
            (taken,) = lock_patiently(context, tx, [entry.intent], ruling.pauses)
            if taken.intent.state is State.AWAITING_APPROVAL and not is_lapsed(
                taken.intent, taken.now
            ):
                return _write(context, tx, ruling, entry, taken)
        entry = find(context, tx, ruling.ref)
    return _tell(context, tx, ruling, entry)


def _require_another(ruling: Ruling, intent: Intent) -> None:
    """Raises PersonRequired where somebody would approve their own call."""
    if ruling.word == YES and is_same(ruling.principal, intent.principal):
        raise errors.PersonRequired(
            f"{ruling.principal} has made this call; another person has to approve it"
        )


def _write(context: Context, tx: Tx, ruling: Ruling, entry: Entry, taken: Taken) -> Envelope:
    bodies = dict(entry.bodies)
    sealed: tuple[Body, ...] = ()
    command: commands.Command
    if ruling.word == YES:
        asked = _asked(tx, ruling, taken.intent)
        goes_on = asked.cause == "other_failed"
        command = commands.Approve(by=ruling.principal, saw=asked.seal, goes_on=goes_on)
    else:
        bodies["reason"] = {"by": ruling.principal, "reason": ruling.reason}
        text = canonical_bytes(bodies["reason"]).decode()
        sealed = (sealed_body(context, "reason", text),)
        command = commands.Deny(by=ruling.principal, reason=body_digest(sealed[0].salt, text))
    events = decide_on(taken.intent, command, taken.now)
    (intent,) = append(tx, [Change(taken=taken, events=events, bodies=sealed)])
    ruling.written.append(intent.version)
    decided = Decided(how=_how(ruling), by=ruling.principal, at=taken.now)
    now = replace(entry, intent=intent, bodies=bodies)
    told = tell(tx, now, row_of(context, entry), trace_id=ruling.trace_id)
    return told.amended({"decided": told_of(decided, bodies)})


def _asked(tx: Tx, ruling: Ruling, intent: Intent) -> Asked:
    """What the yes is bound to. Raises ApprovalMismatch where it is not what the person saw."""
    snapshot = _snapshot(tx, intent)
    asked = snapshot.asked
    if asked is None:
        raise errors.LedgerCorrupt(f"{intent.ref} waits for approval, and no event asks for it")
    snapshot.proven(asked)
    if ruling.expect is not None and ruling.expect not in (asked.expect, asked.seal):
        raise errors.ApprovalMismatch(
            f"what you have looked at is not what {intent.ref} asks for now: look at it again",
            [{"field": "expect", "received": ruling.expect, "now": asked.expect}],
        )
    return asked


def _snapshot(tx: Tx, intent: Intent) -> Snapshot:
    found = read_snapshots(tx, [intent]).get((intent.tenant, intent.id))
    if found is None:
        raise errors.LedgerCorrupt(f"{intent.ref} has no events")
    return found


def _how(ruling: Ruling) -> Literal["approved", "denied"]:
    return "approved" if ruling.word == YES else "denied"


def _tell(context: Context, tx: Tx, ruling: Ruling, entry: Entry) -> Envelope:
    """What somebody, or time, has decided before this ruling came."""
    intent, snapshot = entry.intent, _snapshot(tx, entry.intent)
    if snapshot.asked is None:
        raise errors.ApprovalMismatch(f"nobody is asked about {intent.ref}: it needs no approval")
    _require_another(ruling, intent)
    decided = _decided_before(snapshot, intent)
    if decided.how == _how(ruling):
        seal = decided.seal or snapshot.asked.seal
        is_about_another = ruling.expect not in (None, seal, seal[:EXPECT_LENGTH])
        if ruling.word == YES and is_about_another:
            raise errors.ApprovalMismatch(
                f"{decided.by} has decided about another request of {intent.ref} than yours",
                [{"field": "expect", "received": ruling.expect}],
            )
        is_own = snapshot.facts[-1].version in ruling.written
        replay = None if is_own else Replay()
        told = tell(tx, entry, row_of(context, entry), trace_id=ruling.trace_id, replay=replay)
        return told.amended({"decided": told_of(decided, entry.bodies)})
    problem = errors.TooLate(_sentence(decided, intent, entry.now))
    return refuse(problem, ruling.trace_id, ref=intent.ref, decided=told_of(decided, entry.bodies))


def _decided_before(snapshot: Snapshot, intent: Intent) -> Decided:
    """The decision in the log; that of time may not have been written down yet."""
    decided = snapshot.decided
    if decided is None or intent.state is State.EXPIRED:
        return Decided(how="expired", by=None, at=intent.settled_at or intent.recorded_at)
    return decided


def _sentence(decided: Decided, intent: Intent, now: datetime) -> str:
    return _TOLD[decided.how].format(by=decided.by, ref=intent.ref, at=clock(decided.at, now))


def told_of(decided: Decided, bodies: Any) -> dict[str, Any]:
    """The decision as persons are told of it, with the reason while that is kept."""
    told = {"how": decided.how, "by": decided.by, "at": iso(decided.at)}
    reason = (bodies.get("reason") or {}).get("reason")
    return told | {"reason": reason} if decided.how == "denied" and reason else told
