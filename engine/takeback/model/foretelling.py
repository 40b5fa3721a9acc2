"""The answer of a preview: what a call would become, what it would affect, and what to expect.

Nothing has happened, so there is no ref and nothing to restore. Its size has a bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from takeback.model.brevity import brief
from takeback.model.envelope import (
    AFFECTED_SHOWN_MAX,
    KIND_BYTES_MAX,
    KINDS_SHOWN_MAX,
    LABEL_BYTES_MAX,
    Envelope,
)
from takeback.model.handler import Affected
from takeback.model.payload import Full
from takeback.model.status import Status
from takeback.model.wording import SUMMARY_BYTES_MAX

REPLAYED = "replayed"
"""What a call would become that was made before: its answer again, and nothing else."""

GAP_BYTES_MAX = 100
GAPS_SHOWN_MAX = 5


def foretold(
    tool: str,
    would: Envelope,
    affected: Sequence[Affected],
    count: int,
    *,
    expect: str,
    not_covered: Sequence[str],
    trace_id: str,
) -> Envelope:
    """What a call of ``tool`` would answer now, and what it would affect in all."""
    rows = [{"kind": a.kind, "id": a.id, "label": a.label or a.id} for a in affected]
    document: dict[str, Any] = {
        "status": Status.OK.value,
        "tool": tool,
        "would": would.status,
        "summary": brief(
            f"Nothing is done yet. Called now, the answer would be: {would.summary}",
            SUMMARY_BYTES_MAX,
        ),
        "affected": [
            {
                "kind": brief(one["kind"], KIND_BYTES_MAX),
                "id": brief(one["id"], LABEL_BYTES_MAX),
                "label": brief(one["label"], LABEL_BYTES_MAX),
            }
            for one in rows[:AFFECTED_SHOWN_MAX]
        ],
        "affected_count": count,
    }
    kinds = Counter(one["kind"] for one in rows) if len(rows) == count else Counter[str]()
    if "affected_by_kind" in would:
        document["affected_by_kind"] = would["affected_by_kind"]
    elif len(kinds) > 1:
        largest = sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0]))[:KINDS_SHOWN_MAX]
        document["affected_by_kind"] = {brief(kind, KIND_BYTES_MAX): n for kind, n in largest}
    document |= _undo(would)
    document["expect"] = expect
    document["not_covered"] = [brief(one, GAP_BYTES_MAX) for one in not_covered[:GAPS_SHOWN_MAX]]
    document["trace_id"] = trace_id
    everything = {"tool": tool, "affected": rows, "affected_count": count}
    return Envelope(document, Full(f"a preview of {tool}", everything))


def foretold_repeat(tool: str, first: Envelope, trace_id: str) -> Envelope:
    """That an equal call was made before, whose answer is ``first``: a call would do nothing."""
    said = {name: first[name] for name in ("first_called_at", "again", "differs") if name in first}
    return Envelope(
        {
            "status": Status.OK.value,
            "tool": tool,
            "would": REPLAYED,
            "summary": brief(
                f"An equal call was made before, as {first.ref}: calling again does nothing more, "
                f"and answers: {first.summary}",
                SUMMARY_BYTES_MAX,
            ),
            "first": {"ref": first.ref, "status": first.status},
            "affected": [],
            "affected_count": 0,
            **said,
            "expect": None,
            "not_covered": [],
            "trace_id": trace_id,
        }
    )


def foretold_read(tool: str, trace_id: str) -> Envelope:
    """That a read changes nothing.

    >>> foretold_read("search_orders", "").summary
    'search_orders only reads: it changes nothing, so there is nothing to expect.'
    """
    return Envelope(
        {
            "status": Status.OK.value,
            "tool": tool,
            "would": Status.OK.value,
            "summary": f"{tool} only reads: it changes nothing, so there is nothing to expect.",
            "affected": [],
            "affected_count": 0,
            "expect": None,
            "not_covered": [],
            "trace_id": trace_id,
        }
    )


def unrecorded(refused: Envelope, trace_id: str) -> Envelope:
    """The refusal that a call would get, without what tells of its intent: there is none.

    A corrected call is previewed first, since that is what was asked for.
    """
    kept = ("status", "effect", "repeat_can_succeed", "again", "error")
    document = {name: refused[name] for name in kept if name in refused}
    document["trace_id"] = trace_id if refused.get("ref") else refused["trace_id"]
    error = dict(document["error"])
    if error.get("next_call"):
        error["next_call"] = {"tool": "preview", "arguments": error["next_call"]}
    return Envelope(document | {"error": error})


def _undo(would: Envelope) -> Mapping[str, Any]:
    """How it could be taken back, once it were done."""
    call = would.restore
    if call is None:
        return {"undo": None, "no_restore": would.get("no_restore", "")}
    return {"undo": {name: call[name] for name in ("does", "until", "leaves")}}
