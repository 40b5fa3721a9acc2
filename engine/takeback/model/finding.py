"""The answer of a read: every aggregate, a few rows, and what of it is not shown.

The rows themselves are in the full answer, which stays in the process: a read is not recorded.
A part that could not be searched is named, and is never taken for one in which there is nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from takeback.model.brevity import compact, cut, size
from takeback.model.envelope import Envelope, refusal
from takeback.model.handler import Found, Group
from takeback.model.payload import Full
from takeback.model.selection import CHOSEN_MAX, NAME_BYTES_MAX, chosen, fitted
from takeback.model.status import Status

CHOSEN_BYTES_MAX = 2_000
"""Of an answer whose rows somebody has chosen."""

AGGREGATED_BYTES_MAX = 1_330
"""Of an answer with totals or groups, and three rows."""

SAMPLED_BYTES_MAX = 560
"""Of an answer with three rows out of many."""

ROWS_BYTES_MIN = 360
"""Kept free for rows, however many aggregates there are."""

SUMMARY_BYTES_MAX = 200
TOTAL_BYTES_MAX = 60
GROUP_TOTALS_MAX = 6
PARTS_MAX = 8
PART_BYTES_MAX = 18

_CUT = len('"rows_cut": true, ')


def found(answer: Found, trace_id: str, *, tool: str = "a read") -> Envelope:
    """The answer of a read: nothing matched is a success too, unless something was not searched.

    >>> told = found(Found(matches=[{"id": n} for n in range(9)]), "0f")
    >>> told.summary, told["matches"], told["matches_not_shown"]
    ('9 matches.', [{'id': 0}, {'id': 1}, {'id': 2}], 6)
    """
    full = Full(tool, _everything(answer))
    count = len(answer.matches) if answer.matches_count is None else answer.matches_count
    parts = {"not_searched": _parts(answer.not_searched)} if answer.not_searched else {}
    if parts and not count:
        return _unsearched(parts, trace_id, full)
    aggregated = bool(answer.totals or answer.groups)
    document: dict[str, Any] = {
        "status": (Status.OK if count else Status.NO_MATCHES).value,
        "summary": cut(answer.summary or _counted(answer, count), SUMMARY_BYTES_MAX),
    }
    # As long as it can be: what it says in the end is never longer.
    tail: dict[str, Any] = {
        "matches_not_shown": count,
        "more_matches_exist": False,
        **parts,
        "trace_id": trace_id,
    }
    places, bytes_max = _choice(answer, aggregated=aggregated)
    if aggregated:
        room = bytes_max - ROWS_BYTES_MIN - size(document) - size(tail)
        document |= _aggregates(answer, room)
    room = bytes_max - size(document) - size(tail) - len('"matches": , ') - _CUT
    rows, is_cut = fitted([answer.matches[place] for place in places], room)
    document["matches"] = rows = [row for row in rows if row]
    if is_cut:
        document["rows_cut"] = True
    hidden = max(count - len(rows), 0)
    tail["matches_not_shown"] = hidden
    tail["more_matches_exist"] = answer.more_matches_exist or hidden > 0
    return Envelope(document | tail, full)


def _choice(answer: Found, *, aggregated: bool) -> tuple[list[int], int]:
    """The places of the rows that are told, and how many bytes the answer may have."""
    if aggregated:
        return chosen(answer.matches, answer.groups, answer.group_field), AGGREGATED_BYTES_MAX
    if len(answer.matches) <= CHOSEN_MAX:
        return list(range(len(answer.matches))), CHOSEN_BYTES_MAX
    return chosen(answer.matches, (), None), SAMPLED_BYTES_MAX


def _counted(answer: Found, count: int) -> str:
    if not count:
        return "Nothing matched."
    more = ", and there are more" if answer.more_matches_exist else ""
    return f"{count} match{'' if count == 1 else 'es'}{more}."


def _aggregates(answer: Found, room: int) -> dict[str, Any]:
    """The totals, then the groups, the largest first; how many of them didn't fit, if any."""
    document: dict[str, Any] = {}
    left_out = 0
    room -= len('"aggregates_not_shown": 999999, ')
    totals: dict[str, Any] = {}
    for name, value in answer.totals.items():
        grown = totals | {cut(name, NAME_BYTES_MAX): compact(value, TOTAL_BYTES_MAX)}
        if size({"totals": grown}) > room:
            left_out = len(answer.totals) - len(totals)
            break
        totals = grown
    if totals:
        document["totals"] = totals
    groups: list[dict[str, Any]] = []
    for group in sorted(answer.groups, key=lambda one: (-one.count, one.label)):
        grown_by = [*groups, _group(group)]
        if size(document | {"groups": grown_by}) > room:
            left_out += len(answer.groups) - len(groups)
            break
        groups = grown_by
    if groups:
        document["groups"] = groups
    if left_out:
        document["aggregates_not_shown"] = left_out
    return document


def _group(group: Group) -> dict[str, Any]:
    document: dict[str, Any] = {"label": cut(group.label, NAME_BYTES_MAX), "count": group.count}
    totals = {
        cut(name, NAME_BYTES_MAX): compact(value, TOTAL_BYTES_MAX)
        for name, value in list(group.totals.items())[:GROUP_TOTALS_MAX]
    }
    return document | ({"totals": totals} if totals else {})


def _parts(names: Sequence[str]) -> list[str]:
    return [cut(name, PART_BYTES_MAX) for name in names[:PARTS_MAX]]


def _unsearched(parts: Mapping[str, Any], trace_id: str, full: Full) -> Envelope:
    """Nothing was found, and not everything was searched: that is no answer."""
    said = ", ".join(parts["not_searched"])
    refused = refusal(
        "provider_unavailable",
        f"{said} can't be searched at this moment; that says nothing about what there is",
        trace_id=trace_id,
        status=Status.UNAVAILABLE.value,
        extra=parts,
    )
    return Envelope(refused, full)


def _everything(answer: Found) -> dict[str, Any]:
    return {
        "summary": answer.summary,
        "matches": answer.matches,
        "matches_count": answer.matches_count,
        "more_matches_exist": answer.more_matches_exist,
        "totals": answer.totals,
        "groups": [
            {"label": one.label, "count": one.count, "totals": one.totals} for one in answer.groups
        ],
        "not_searched": answer.not_searched,
        "result": answer.result,
    }
