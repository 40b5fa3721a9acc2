"""What a person may say of an intent that nobody else can end, and which verb says it.

``retry`` has it tried again; ``resolve`` says what became of it, and so stops what is on its way
once more. Every door reads here what applies, so that no two of them say different things.
"""

from __future__ import annotations

from typing import Any, Literal

from takeback.model.intent import Intent, State, is_denied, is_tried_again, waited_in_vain

Word = Literal["retried", "succeeded", "failed", "unknown"]

AS = ("succeeded", "failed", "unknown")
"""What ``resolve`` may say. Of what is ``unknown`` nothing more begins: it is parked."""


def is_open(word: Word, intent: Intent) -> bool:
    """Whether there is ``word`` to be said of ``intent``.

    >>> from datetime import datetime, timedelta
    >>> from uuid import UUID
    >>> parked = Intent(
    ...     tenant="default",
    ...     id=UUID(int=1),
    ...     ref="pay-7F3K9QDM",
    ...     tool="pay",
    ...     tool_version=1,
    ...     effect="remote",
    ...     key="k1:9f86d081",
    ...     generation=0,
    ...     run=None,
    ...     principal="agent:support",
    ...     state=State.PARKED,
    ...     version=5,
    ...     recorded_at=datetime(2026, 1, 1, 12),
    ...     window=timedelta(0),
    ... )
    >>> is_open("succeeded", parked), is_open("retried", parked), is_open("unknown", parked)
    (True, True, False)
    >>> steps_for(parked)  # doctest: +NORMALIZE_WHITESPACE
    [{'resolve': 'pay-7F3K9QDM', 'as': ['succeeded', 'failed'], 'by': 'a person'},
     {'retry': 'pay-7F3K9QDM', 'by': 'a person'}]
    """
    if _is_about_restore(intent):
        return False
    if is_denied(intent):
        return intent.state is State.FAILED and word in ("succeeded", "failed")
    if word == "retried":
        return intent.state in (State.PARKED, State.FAILED)
    if intent.state is State.PARKED:
        return word != "unknown"
    return intent.state is State.IN_DOUBT or is_tried_again(intent)


def verbs_for(intent: Intent) -> tuple[str, ...]:
    """The verbs of a person's that say what became of ``intent``, or has it tried again; the safest
    first.
    """
    resolves = ("resolve",) if is_open("succeeded", intent) else ()
    return (*resolves, "retry") if is_open("retried", intent) else resolves


def steps_for(intent: Intent) -> list[dict[str, Any]]:
    """The same as alternatives of a refusal: verb and ref, what ``resolve`` may say here, and that
    no agent may take them.
    """
    return [
        {verb: intent.ref, **({"as": words_for(intent)} if verb == "resolve" else {}), **_BY}
        for verb in verbs_for(intent)
    ]


def words_for(intent: Intent) -> list[str]:
    """What ``resolve`` may say of ``intent``; first what decides nothing that can't be revised."""
    words: tuple[Word, ...] = ("unknown", "succeeded", "failed")
    return [word for word in words if is_open(word, intent)]


def what_it_is(intent: Intent) -> str:
    """In one sentence what an intent is, and which verb of a person's applies to it."""
    if _is_about_restore(intent):
        via = intent.restored_via
        return f"{intent.ref} has happened; whether {via} has taken it back is in doubt: see there"
    if is_denied(intent) and intent.state is State.FAILED:
        return f"{intent.ref} {_DENIED}"
    if is_tried_again(intent):
        return f"{intent.ref} {_TRIED_AGAIN}"
    if intent.state is State.CANCELLED and waited_in_vain(intent):
        return f"{intent.ref} {_IN_VAIN}"
    return f"{intent.ref} {_IS.get(intent.state, _ON_ITS_WAY)}"


def _is_about_restore(intent: Intent) -> bool:
    """In doubt about its restore is not in doubt about itself."""
    return intent.state is State.IN_DOUBT and intent.restored_via is not None


_BY = {"by": "a person"}

_ON_ITS_WAY = "is still to be carried out: `restore` takes it back before that"

_DENIED = (
    "was called failed, and a late answer says that it happened: `resolve` says what became of it, "
    "before anything is tried again"
)

_IN_VAIN = "never happens: what it waited for came to nothing"

_TRIED_AGAIN = (
    "is to be tried again, and an earlier attempt may have happened: `resolve` says what became of "
    "that, and stops it; as unknown where nobody knows"
)

_IS = {
    State.AWAITING_APPROVAL: "waits for approval: `approve` or `deny` decides",
    State.EXECUTING: "is being carried out at this moment: wait for its end",
    State.IN_DOUBT: (
        "is in doubt: `resolve` says what became of it; said to be unknown it is parked, and then "
        "`retry` has it tried again"
    ),
    State.PARKED: "is parked: `resolve` says what became of it, `retry` has it tried again",
    State.SUCCEEDED: "has happened: `restore` takes it back where that is possible",
    State.RESTORE_FAILED: "has happened, and taking it back has failed",
    State.RESTORING: "has happened and is being taken back",
    State.RESTORED: "was taken back",
    State.FAILED: "has failed, so it did not happen: `retry` has it tried again",
    State.CANCELLED: "was taken back before it began: it never happens",
    State.DENIED: "was denied: it never happens",
    State.EXPIRED: "was approved by nobody in time: it never happens",
    State.PURGED: "is over, and its arguments are forgotten",
}
