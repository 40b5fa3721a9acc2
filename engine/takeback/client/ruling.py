"""What the verbs of persons have in common: who may say them, in what words, on which rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from takeback.client.body import words
from takeback.client.context import Context
from takeback.client.request import identifier_violations
from takeback.ledger.locking import Taken, lock_free
from takeback.ledger.transaction import Tx
from takeback.model import errors
from takeback.model.intent import Intent
from takeback.model.principal import is_agent
from takeback.model.violation import Repair, Violation, shown

REASON_LENGTH_MAX = 2000


def ruling_violations(principal: str, **texts: Any) -> tuple[Violation, ...]:
    """What is wrong with who says a verb, and with its texts; None is no text."""
    return (*identifier_violations(run=None, principal=principal), *_text_violations(texts))


def require_person(principal: str, verb: str) -> None:
    """Raises PersonRequired for an agent's principal."""
    if is_agent(principal):
        raise errors.PersonRequired(f"an agent can't {verb}; a person decides")


def lock_patiently(
    context: Context, tx: Tx, intents: Sequence[Intent], pauses: Iterator[float]
) -> list[Taken]:
    """The rows of ``intents``, in their order. Whoever holds one is waited for, but not for ever.

    ``pauses`` are what is left of the patience with others. Raises InProgress.
    """
    while True:
        rows = {taken.intent.id: taken for taken in lock_free(tx, intents)}
        if len(rows) == len(intents):
            return [rows[intent.id] for intent in intents]
        pause = next(pauses, None)
        if pause is None:
            raise errors.InProgress(
                f"somebody else decides about {intents[0].ref} at this moment; ask again"
            )
        context.pause(pause)


def _text_violations(texts: dict[str, Any]) -> Iterator[Violation]:
    for name, value in texts.items():
        is_short = isinstance(value, str) and len(value) <= REASON_LENGTH_MAX
        if value is not None and not (is_short and words(value) == value):
            yield Violation(
                field=name,
                code="malformed",
                message=f"must be text of at most {REASON_LENGTH_MAX} characters",
                received=shown(value),
                repair=Repair.CHOICE,
            )
