"""What every answer has, whatever was asked in whatever state of the world."""

import re
from collections.abc import Collection

from takeback import Envelope
from takeback.model.code import CODES, Class, Where
from takeback.model.status import OF_READS, OF_WRITES, Status

TRACE_ID = re.compile(r"[0-9a-f]{16}")
BYTES_MAX = 16_384  # far above any answer; the bounds themselves are shown where sizes are
MEETABLE = {Where.CALL, Where.READ, Where.RESTORE, Where.PERSON, Where.STAYS}
ABOUT_ITSELF = {
    "replayed",
    "first_called_at",
    "again",
    "differs",
    "differs_count",
    "stands",
    "redone_by",
    "decision_received",
    "taken_for",
}


def require_closed(envelope: Envelope, *, reads: bool = False) -> None:
    """The words are of the closed sets, and what has to stand beside each of them does."""
    words = OF_READS | {Status.REFUSED, Status.IN_PROGRESS} if reads else OF_WRITES
    assert envelope["status"] in {word.value for word in words}
    assert TRACE_ID.fullmatch(envelope["trace_id"])
    assert len(envelope.to_json().encode()) <= BYTES_MAX
    if "error" in envelope:
        require_whole_error(envelope)
    else:
        assert envelope.status not in ("refused", "unavailable")
        assert isinstance(envelope["summary"], str)
        if not reads:
            require_way_back(envelope)


def require_whole_error(envelope: Envelope) -> None:
    """An error answers the two questions: what it left, and whether the same may work later."""
    assert envelope.status in ("refused", "in_progress", "unavailable")
    error = envelope["error"]
    code = CODES[error["code"]]
    assert MEETABLE.intersection(code.where), f"{code.name} is not for a model"
    assert envelope["effect"] in ("none", "committed", "unknown")
    assert envelope["effect"] in code.effects
    assert isinstance(envelope["repeat_can_succeed"], bool)
    assert error["class"] in {code.class_, code.settled_class}
    assert error["message"]
    is_transient = error["class"] == Class.TRANSIENT
    assert (error["retry_after_s"] is not None) is is_transient
    if error["class"] == Class.TERMINAL:
        assert envelope["repeat_can_succeed"] is False
    for name in ("violations", "alternatives"):
        assert isinstance(error[name], list)


def require_way_back(envelope: Envelope) -> None:
    """What is, or may be, in the world says how it is taken back, or why it can't be."""
    assert envelope["ref"]
    assert isinstance(envelope["affected_count"], int)
    if envelope["restore"] is None:
        assert envelope["no_restore"] or envelope["redone_by"]
    else:
        assert envelope["restore"]["tool"] == "restore"
        assert set(envelope["restore"]["arguments"]) == {"ref"}
    if envelope.status == "needs_approval":
        assert "expires_at" in envelope["approval"]
    if envelope.status == "in_doubt":
        assert envelope["effect"] in ("none", "unknown")
        assert envelope["repeat_can_succeed"] is False
    if envelope.replayed:
        assert envelope["first_called_at"]
        again = {"repeat_of": envelope.ref}
        assert envelope.get("again", again) == again
        # What may have happened need not be offered to be done once more.
        stands_anew = "redone_by" in envelope or "amended_by" in envelope
        assert "again" in envelope or envelope.status == "in_doubt" or stands_anew


def about_intent(envelope: Envelope, *, without: Collection[str] = ()) -> dict[str, object]:
    """What an answer says of its intent, without what it says of itself."""
    left_out = ABOUT_ITSELF | set(without)
    return {name: value for name, value in envelope.items() if name not in left_out}
