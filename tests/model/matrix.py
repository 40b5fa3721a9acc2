"""The lifecycle as DESIGN §6 has it, and what each command does in each situation.

Written by hand, to be read against the design, and derived from no code. Whatever does not stand in
MATRIX is refused.
"""

from datetime import timedelta

from takeback.model import command as commands
from tests.model.history import NOW, OTHER, VIA, second

LIFECYCLE: dict[str, set[str]] = {
    "recorded": {"awaiting_approval", "waiting", "held", "due", "succeeded"},
    "awaiting_approval": {"held", "due", "cancelled", "denied", "expired"},
    "waiting": {"held", "due"},
    "held": {"due", "cancelled"},
    "due": {"claimed", "cancelled"},
    "claimed": {"executing", "due", "cancelled"},
    "executing": {"succeeded", "failed", "due", "in_doubt"},
    "in_doubt": {"succeeded", "failed", "due", "parked"},
    "parked": {"succeeded", "failed", "due"},
    "failed": {"due"},
    "succeeded": {"restoring"},
    "restoring": {"restored", "restore_failed", "in_doubt"},
}
"""The table, row by row, with the steps of restoring spelt out."""

FINAL = {"succeeded", "failed", "cancelled", "denied", "expired", "restored", "restore_failed"}
""""Anything final → purged"."""

ADDED: dict[tuple[str, str], str] = {
    (
        "recorded",
        "failed",
    ): "a local handler refuses for good: remembered and repeated (§6, corners)",
    ("awaiting_approval", "waiting"): "approved, but the others have not succeeded yet (§9, after)",
    (
        "waiting",
        "awaiting_approval",
    ): "as declared when another fails: a person decides (§9, after)",
    ("waiting", "cancelled"): "as declared when another fails, and whenever somebody takes it back",
    (
        "claimed",
        "parked",
    ): "no upgrade for its version (§3), or its provider's key is forgotten (§6)",
    (
        "claimed",
        "awaiting_approval",
    ): "over a limit at release: it waits for approval (§7, limits)",
    **{
        (
            state,
            "parked",
        ): "a person stops what is tried again while an earlier attempt is unknown (§6, parked)"
        for state in ("awaiting_approval", "waiting", "held", "due")
    },
    ("claimed", "failed"): "over a limit that its row lets nobody lift: refused (§7, limits)",
    ("in_doubt", "restored"): "a restore in doubt has an end, too",
    ("in_doubt", "restore_failed"): "a restore in doubt has an end, too",
    ("failed", "succeeded"): "a late answer says that it happened, and a person decides again (§6)",
    ("restore_failed", "restoring"): "a restore that failed is tried again",
}
"""Steps beyond the table, each with what calls for it."""

COMMANDS: dict[str, commands.Command] = {
    "MoveWindow": commands.MoveWindow(committed_at=NOW),
    "AskApproval": commands.AskApproval(cause="limit", approval_for=timedelta(days=1)),
    "AskApproval, for ever": commands.AskApproval(cause="limit"),
    "AskApproval, other": commands.AskApproval(cause="other_failed"),
    "Approve": commands.Approve(by="dana"),
    "Approve, go on": commands.Approve(by="dana", goes_on=True),
    "Approve, seen": commands.Approve(by="dana", saw="ef2d127d"),
    "Deny": commands.Deny(by="dana"),
    "ExpireApproval": commands.ExpireApproval(),
    "Refuse": commands.Refuse(code="limit_exceeded", error="4b227777"),
    "Awake": commands.Awake(),
    "StopWaiting": commands.StopWaiting(cause="other_failed", waited_for="ef2d127d"),
    "Postpone": commands.Postpone(until=second(3600)),
    "Release": commands.Release(),
    "Cancel": commands.Cancel(by="dana"),
    "Claim": commands.Claim(worker="w-2", lease=timedelta(seconds=30)),
    "HandBack": commands.HandBack(),
    "Begin": commands.Begin(lease=timedelta(seconds=30)),
    "ExpireLease": commands.ExpireLease(),
    "Succeed": commands.Succeed(result="ef2d127d"),
    "Succeed, find": commands.Succeed(result="ef2d127d", source="find"),
    "Succeed, person": commands.Succeed(result=None, source="person", by="dana"),
    "Fail": commands.Fail(code="provider_rejected"),
    "Fail, find": commands.Fail(code="provider_rejected", source="find"),
    "Fail, person": commands.Fail(code="provider_rejected", source="person", by="dana"),
    "Defer": commands.Defer(wait=timedelta(seconds=1)),
    "LoseTrack": commands.LoseTrack(cause="exception"),
    "Park": commands.Park(),
    "Park, no_upgrade": commands.Park(cause="no_upgrade"),
    "Park, altered": commands.Park(cause="altered"),
    "Park, key_expired": commands.Park(cause="key_expired"),
    "Park, contradicted": commands.Park(cause="contradicted"),
    "Park, person": commands.Park(cause="person", by="dana"),
    "Requeue, absent": commands.Requeue(cause="absent"),
    "Requeue, absent, epoch": commands.Requeue(cause="absent", new_epoch=True),
    "Requeue, key": commands.Requeue(cause="provider_key", begin_before=second(1)),
    "Requeue, key, kept": commands.Requeue(cause="provider_key"),
    "Requeue, key, forgotten": commands.Requeue(cause="provider_key", begin_before=NOW),
    "Requeue, key, epoch": commands.Requeue(cause="provider_key", new_epoch=True),
    "Requeue, person": commands.Requeue(cause="person", by="dana"),
    "Requeue, person, epoch": commands.Requeue(cause="person", by="dana", new_epoch=True),
    "Late 0 succeeded": commands.AnswerLate(attempt=0, outcome="succeeded"),
    "Late 1 succeeded": commands.AnswerLate(attempt=1, outcome="succeeded"),
    "Late 1 failed": commands.AnswerLate(attempt=1, outcome="failed"),
    "Late 2 succeeded": commands.AnswerLate(attempt=2, outcome="succeeded"),
    "Late 2 failed": commands.AnswerLate(attempt=2, outcome="failed"),
    "Late 3 succeeded": commands.AnswerLate(attempt=3, outcome="succeeded"),
    "BeginRestore": commands.BeginRestore(by="dana", via=VIA),
    "FinishRestore": commands.FinishRestore(via=VIA),
    "FinishRestore, other": commands.FinishRestore(via=OTHER),
    "FailRestore": commands.FailRestore(via=VIA),
    "FailRestore, other": commands.FailRestore(via=OTHER),
    "DoubtRestore": commands.DoubtRestore(via=VIA),
    "DoubtRestore, other": commands.DoubtRestore(via=OTHER),
    "Purge": commands.Purge(),
}
"""Every command but Record in its variants; "Late 2 failed" is AnswerLate for attempt 2."""

MATRIX: dict[str, str] = {
    "absent": "",
    "recorded": """
        Succeed: succeeded -> succeeded
        Fail: failed -> failed
    """,
    "awaiting_approval": """
        Approve: approved -> held
        Approve, go on: approved -> held
        Approve, seen: approved -> held
        Deny: denied -> denied
        Cancel: cancelled -> cancelled
    """,
    "awaiting_approval, no window": """
        Approve: approved -> due
        Approve, go on: approved -> due
        Approve, seen: approved -> due
        Deny: denied -> denied
        Cancel: cancelled -> cancelled
    """,
    "awaiting_approval, after another": """
        Approve: approved -> waiting
        Approve, go on: approved -> due
        Approve, seen: approved -> waiting
        Deny: denied -> denied
        Cancel: cancelled -> cancelled
    """,
    "awaiting_approval, open": """
        Approve: approved -> held
        Approve, go on: approved -> held
        Approve, seen: approved -> held
        Deny: denied -> denied
        Cancel: cancelled -> cancelled
    """,
    "awaiting_approval, lapsed": """
        Deny: denied -> denied
        ExpireApproval: approval_expired -> expired
        Cancel: cancelled -> cancelled
    """,
    "awaiting_approval, limit": """
        Approve: approved -> due
        Approve, go on: approved -> due
        Approve, seen: approved -> due
        Deny: denied -> denied
        Cancel: cancelled -> cancelled
    """,
    "awaiting_approval, limit, lapsed": """
        Deny: denied -> denied
        ExpireApproval: approval_expired -> expired
        Cancel: cancelled -> cancelled
    """,
    "awaiting_approval, limit, first deferred": """
        Approve: approved -> due
        Approve, go on: approved -> due
        Approve, seen: approved -> due
        Deny: denied -> denied
        Cancel: cancelled -> cancelled
        Late 1 succeeded: answered_late contradicted -> awaiting_approval
        Late 1 failed: answered_late -> awaiting_approval
    """,
    "awaiting_approval, other failed": """
        Approve: approved -> waiting
        Approve, go on: approved -> held
        Approve, seen: approved -> waiting
        Deny: denied -> denied
        Cancel: cancelled -> cancelled
    """,
    "awaiting_approval, contradicted": """
        Approve: approved -> due
        Approve, go on: approved -> due
        Approve, seen: approved -> due
        Deny: denied -> denied
        Park, person: parked -> parked
        Late 1 succeeded: answered_late -> awaiting_approval
        Late 1 failed: answered_late -> awaiting_approval
    """,
    "waiting": """
        AskApproval, other: approval_asked -> awaiting_approval
        Awake: awoken -> due
        StopWaiting: wait_failed -> cancelled
        Cancel: cancelled -> cancelled
    """,
    "waiting, with a window": """
        AskApproval, other: approval_asked -> awaiting_approval
        Awake: awoken -> held
        StopWaiting: wait_failed -> cancelled
        Cancel: cancelled -> cancelled
    """,
    "waiting, contradicted": """
        Awake: awoken -> due
        Park, person: parked -> parked
        Late 1 succeeded: answered_late -> waiting
        Late 1 failed: answered_late -> waiting
    """,
    "held": """
        Postpone: postponed -> held
        MoveWindow: window_moved -> held
        Cancel: cancelled -> cancelled
    """,
    "held, window over": """
        Postpone: postponed -> held
        MoveWindow: window_moved -> held
        Release: due -> due
        Claim: due claimed -> claimed
        Cancel: cancelled -> cancelled
    """,
    "held, contradicted": """
        Postpone: postponed -> held
        MoveWindow: window_moved -> held
        Park, person: parked -> parked
        Late 1 succeeded: answered_late -> held
        Late 1 failed: answered_late -> held
    """,
    "due": """
        Postpone: postponed -> due
        Claim: claimed -> claimed
        Cancel: cancelled -> cancelled
    """,
    "due, later": """
        Postpone: postponed -> due
        Cancel: cancelled -> cancelled
        Late 1 succeeded: answered_late contradicted -> due
        Late 1 failed: answered_late -> due
    """,
    "due, first deferred": """
        Postpone: postponed -> due
        Claim: claimed -> claimed
        Cancel: cancelled -> cancelled
        Late 1 succeeded: answered_late contradicted -> due
        Late 1 failed: answered_late -> due
    """,
    "due, first unknown": """
        Postpone: postponed -> due
        Claim: claimed -> claimed
        Park, person: parked -> parked
        Late 1 succeeded: answered_late -> due
        Late 1 failed: answered_late -> due
    """,
    "due, first absent": """
        Postpone: postponed -> due
        Claim: claimed -> claimed
        Cancel: cancelled -> cancelled
        Late 1 succeeded: answered_late contradicted -> due
        Late 1 failed: answered_late -> due
    """,
    "due, contradicted": """
        Postpone: postponed -> due
        Claim: claimed -> claimed
        Park, person: parked -> parked
        Late 1 succeeded: answered_late -> due
        Late 1 failed: answered_late -> due
    """,
    "claimed": """
        AskApproval: approval_asked -> awaiting_approval
        AskApproval, for ever: approval_asked -> awaiting_approval
        AskApproval, other: approval_asked -> awaiting_approval
        Refuse: failed -> failed
        HandBack: handed_back -> due
        Begin: attempt_began -> executing
        Cancel: cancelled -> cancelled
        Park, no_upgrade: parked -> parked
        Park, altered: parked -> parked
    """,
    "claimed, approved before": """
        AskApproval: approval_asked -> awaiting_approval
        AskApproval, for ever: approval_asked -> awaiting_approval
        AskApproval, other: approval_asked -> awaiting_approval
        Refuse: failed -> failed
        HandBack: handed_back -> due
        Begin: attempt_began -> executing
        Cancel: cancelled -> cancelled
        Park, no_upgrade: parked -> parked
        Park, altered: parked -> parked
    """,
    "claimed, lease over": """
        AskApproval: approval_asked -> awaiting_approval
        AskApproval, for ever: approval_asked -> awaiting_approval
        AskApproval, other: approval_asked -> awaiting_approval
        Refuse: failed -> failed
        HandBack: handed_back -> due
        Begin: attempt_began -> executing
        ExpireLease: handed_back -> due
        Cancel: cancelled -> cancelled
        Park, no_upgrade: parked -> parked
        Park, altered: parked -> parked
    """,
    "claimed, first deferred": """
        AskApproval: approval_asked -> awaiting_approval
        AskApproval, for ever: approval_asked -> awaiting_approval
        AskApproval, other: approval_asked -> awaiting_approval
        Refuse: failed -> failed
        HandBack: handed_back -> due
        Begin: attempt_began -> executing
        Cancel: cancelled -> cancelled
        Park, no_upgrade: parked -> parked
        Park, altered: parked -> parked
        Late 1 succeeded: answered_late contradicted -> claimed
        Late 1 failed: answered_late -> claimed
    """,
    "claimed, first unknown": """
        HandBack: handed_back -> due
        Begin: attempt_began -> executing
        Park, no_upgrade: parked -> parked
        Park, altered: parked -> parked
        Park, person: parked -> parked
        Late 1 succeeded: answered_late -> claimed
        Late 1 failed: answered_late -> claimed
    """,
    "claimed, key expired": """
        HandBack: handed_back -> due
        Park, no_upgrade: parked -> parked
        Park, altered: parked -> parked
        Park, key_expired: parked -> parked
        Park, person: parked -> parked
        Late 1 succeeded: answered_late -> claimed
        Late 1 failed: answered_late -> claimed
    """,
    "claimed, contradicted": """
        HandBack: handed_back -> due
        Park, no_upgrade: parked -> parked
        Park, altered: parked -> parked
        Park, contradicted: parked -> parked
        Park, person: parked -> parked
        Late 1 succeeded: answered_late -> claimed
        Late 1 failed: answered_late -> claimed
    """,
    "executing": """
        Succeed: succeeded -> succeeded
        Fail: failed -> failed
        Defer: deferred -> due
        LoseTrack: in_doubt -> in_doubt
        Late 1 succeeded: answered_late -> executing
        Late 1 failed: answered_late -> executing
    """,
    "executing, lease over": """
        ExpireLease: in_doubt -> in_doubt
        Succeed: succeeded -> succeeded
        Fail: failed -> failed
        Defer: deferred -> due
        LoseTrack: in_doubt -> in_doubt
        Late 1 succeeded: answered_late -> executing
        Late 1 failed: answered_late -> executing
    """,
    "executing, first deferred": """
        Succeed: succeeded -> succeeded
        Fail: failed -> failed
        Defer: deferred -> due
        LoseTrack: in_doubt -> in_doubt
        Late 1 succeeded: answered_late contradicted -> executing
        Late 1 failed: answered_late -> executing
        Late 2 succeeded: answered_late -> executing
        Late 2 failed: answered_late -> executing
    """,
    "executing, first unknown": """
        Succeed: succeeded -> succeeded
        Fail: failed -> failed
        Defer: deferred -> due
        LoseTrack: in_doubt -> in_doubt
        Late 1 succeeded: answered_late -> executing
        Late 1 failed: answered_late -> executing
        Late 2 succeeded: answered_late -> executing
        Late 2 failed: answered_late -> executing
    """,
    "in_doubt": """
        Succeed, find: succeeded -> succeeded
        Succeed, person: succeeded -> succeeded
        Fail, find: failed -> failed
        Fail, person: failed -> failed
        Park: parked -> parked
        Park, no_upgrade: parked -> parked
        Park, altered: parked -> parked
        Park, key_expired: parked -> parked
        Park, contradicted: parked -> parked
        Park, person: parked -> parked
        Requeue, absent: requeued -> due
        Requeue, absent, epoch: requeued -> due
        Requeue, key: requeued -> due
        Requeue, key, kept: requeued -> due
        Late 1 succeeded: answered_late succeeded -> succeeded
        Late 1 failed: answered_late failed -> failed
    """,
    "in_doubt, first unknown": """
        Succeed, find: succeeded -> succeeded
        Succeed, person: succeeded -> succeeded
        Fail, find: failed -> failed
        Fail, person: failed -> failed
        Park: parked -> parked
        Park, no_upgrade: parked -> parked
        Park, altered: parked -> parked
        Park, key_expired: parked -> parked
        Park, contradicted: parked -> parked
        Park, person: parked -> parked
        Requeue, absent: requeued -> due
        Requeue, absent, epoch: requeued -> due
        Requeue, key: requeued -> due
        Requeue, key, kept: requeued -> due
        Late 1 succeeded: answered_late -> in_doubt
        Late 1 failed: answered_late -> in_doubt
        Late 2 succeeded: answered_late succeeded -> succeeded
        Late 2 failed: answered_late -> in_doubt
    """,
    "in_doubt, first deferred": """
        Succeed, find: succeeded -> succeeded
        Succeed, person: succeeded -> succeeded
        Fail, find: failed -> failed
        Fail, person: failed -> failed
        Park: parked -> parked
        Park, no_upgrade: parked -> parked
        Park, altered: parked -> parked
        Park, key_expired: parked -> parked
        Park, contradicted: parked -> parked
        Park, person: parked -> parked
        Requeue, absent: requeued -> due
        Requeue, absent, epoch: requeued -> due
        Requeue, key: requeued -> due
        Requeue, key, kept: requeued -> due
        Late 1 succeeded: answered_late contradicted -> in_doubt
        Late 1 failed: answered_late -> in_doubt
        Late 2 succeeded: answered_late succeeded -> succeeded
        Late 2 failed: answered_late failed -> failed
    """,
    "in_doubt, contradicted": """
        Succeed, find: succeeded -> succeeded
        Succeed, person: succeeded -> succeeded
        Fail, find: failed -> failed
        Fail, person: failed -> failed
        Park: parked -> parked
        Park, no_upgrade: parked -> parked
        Park, altered: parked -> parked
        Park, key_expired: parked -> parked
        Park, contradicted: parked -> parked
        Park, person: parked -> parked
        Requeue, absent: requeued -> due
        Requeue, key: requeued -> due
        Requeue, key, kept: requeued -> due
        Late 1 succeeded: answered_late -> in_doubt
        Late 1 failed: answered_late -> in_doubt
        Late 2 succeeded: answered_late succeeded -> succeeded
        Late 2 failed: answered_late -> in_doubt
    """,
    "in_doubt, restore": """
        FinishRestore: restored -> restored
        FailRestore: restore_failed -> restore_failed
        Late 1 succeeded: answered_late -> in_doubt
        Late 1 failed: answered_late contradicted -> in_doubt
    """,
    "parked": """
        Succeed, person: succeeded -> succeeded
        Fail, person: failed -> failed
        Requeue, person: requeued -> due
        Late 1 succeeded: answered_late succeeded -> succeeded
        Late 1 failed: answered_late failed -> failed
    """,
    "parked, never begun": """
        Succeed, person: succeeded -> succeeded
        Fail, person: failed -> failed
        Requeue, person: requeued -> due
    """,
    "parked, first deferred": """
        Succeed, person: succeeded -> succeeded
        Fail, person: failed -> failed
        Requeue, person: requeued -> due
        Late 1 succeeded: answered_late contradicted -> parked
        Late 1 failed: answered_late -> parked
    """,
    "parked, first unknown": """
        Succeed, person: succeeded -> succeeded
        Fail, person: failed -> failed
        Requeue, person: requeued -> due
        Late 1 succeeded: answered_late succeeded -> succeeded
        Late 1 failed: answered_late failed -> failed
    """,
    "succeeded": """
        BeginRestore: restore_began -> restoring
        Purge: purged -> purged
        Late 1 succeeded: answered_late -> succeeded
        Late 1 failed: answered_late contradicted -> succeeded
    """,
    "succeeded, local": """
        BeginRestore: restore_began -> restoring
        Purge: purged -> purged
    """,
    "succeeded, first deferred": """
        BeginRestore: restore_began -> restoring
        Purge: purged -> purged
        Late 1 succeeded: answered_late contradicted -> succeeded
        Late 1 failed: answered_late -> succeeded
        Late 2 succeeded: answered_late -> succeeded
        Late 2 failed: answered_late contradicted -> succeeded
    """,
    "succeeded, first unknown": """
        BeginRestore: restore_began -> restoring
        Purge: purged -> purged
        Late 1 succeeded: answered_late -> succeeded
        Late 1 failed: answered_late -> succeeded
        Late 2 succeeded: answered_late -> succeeded
        Late 2 failed: answered_late contradicted -> succeeded
    """,
    "failed": """
        Requeue, person: requeued -> due
        Requeue, person, epoch: requeued -> due
        Purge: purged -> purged
        Late 1 succeeded: answered_late contradicted -> failed
        Late 1 failed: answered_late -> failed
    """,
    "failed, first unknown": """
        Requeue, person: requeued -> due
        Purge: purged -> purged
        Late 1 succeeded: answered_late contradicted -> failed
        Late 1 failed: answered_late -> failed
        Late 2 succeeded: answered_late contradicted -> failed
        Late 2 failed: answered_late -> failed
    """,
    "failed, contradicted": """
        Succeed, person: succeeded -> succeeded
        Fail, person: failed -> failed
        Purge: purged -> purged
        Late 1 succeeded: answered_late contradicted -> failed
        Late 1 failed: answered_late -> failed
    """,
    "failed, over a limit": """
        Requeue, person: requeued -> due
        Requeue, person, epoch: requeued -> due
        Purge: purged -> purged
    """,
    "failed, over a limit, first deferred": """
        Requeue, person: requeued -> due
        Requeue, person, epoch: requeued -> due
        Purge: purged -> purged
        Late 1 succeeded: answered_late contradicted -> failed
        Late 1 failed: answered_late -> failed
    """,
    "cancelled": """
        Purge: purged -> purged
    """,
    "cancelled, first deferred": """
        Purge: purged -> purged
        Late 1 succeeded: answered_late contradicted -> cancelled
        Late 1 failed: answered_late -> cancelled
    """,
    "cancelled, waited in vain": """
        Purge: purged -> purged
    """,
    "denied": """
        Purge: purged -> purged
    """,
    "expired": """
        Purge: purged -> purged
    """,
    "restoring": """
        FinishRestore: restored -> restored
        FailRestore: restore_failed -> restore_failed
        DoubtRestore: restore_in_doubt -> in_doubt
        Late 1 succeeded: answered_late -> restoring
        Late 1 failed: answered_late contradicted -> restoring
    """,
    "restored": """
        Purge: purged -> purged
        Late 1 succeeded: answered_late -> restored
        Late 1 failed: answered_late contradicted -> restored
    """,
    "restore_failed": """
        BeginRestore: restore_began -> restoring
        Purge: purged -> purged
        Late 1 succeeded: answered_late -> restore_failed
        Late 1 failed: answered_late contradicted -> restore_failed
    """,
    "purged": """
        Late 1 succeeded: answered_late -> purged
        Late 1 failed: answered_late contradicted -> purged
    """,
    "purged, failed": """
        Late 1 succeeded: answered_late contradicted -> purged
        Late 1 failed: answered_late -> purged
    """,
    "purged, cancelled": "",
}
"""Situation -> "command: events -> state it ends in", a line each."""

Answer = tuple[list[str], str]


def answers(situation: str) -> dict[str, Answer]:
    """A row of MATRIX, read: the kinds of the events and the state after them, by command."""
    row: dict[str, Answer] = {}
    for line in MATRIX[situation].strip().splitlines():
        command, answer = line.strip().split(": ")
        kinds, state = answer.split(" -> ")
        row[command] = ([f"intent.{kind}" for kind in kinds.split()], state)
    return row
