"""What becomes of an intent when the restore that takes it back ends, well or badly."""

from __future__ import annotations

from collections.abc import Sequence

from takeback.ledger.appending import Change
from takeback.ledger.locking import Taken
from takeback.log import logger
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.decide import decide
from takeback.model.event import Event
from takeback.model.intent import Intent, State


def follow(restore: Intent, events: Sequence[Event], original: Taken) -> list[Change]:
    """The change of ``original`` that goes with ``events`` of ``restore``, in one transaction.

    An original that has gone its own way stays as it is: the log says so.
    """
    command = _command(restore, {event.KIND for event in events}, original.intent)
    if command is None:
        return []
    try:
        following = decide(original.intent, command, original.now)
    except errors.InvalidTransition as problem:
        logger.error("original_not_changed", ref=restore.ref, state=problem.state)
        return []
    return [Change(taken=original, events=following)]


def _command(restore: Intent, kinds: set[str], original: Intent) -> commands.Command | None:
    if "intent.succeeded" in kinds:
        return commands.FinishRestore(via=restore.ref)
    if "intent.failed" in kinds:
        return commands.FailRestore(via=restore.ref)
    if "intent.in_doubt" in kinds and original.state is State.RESTORING:
        return commands.DoubtRestore(via=restore.ref)
    return None
