"""Which few of many rows are told, and how short: the same rows in the same order every time.

    at most eight rows, no aggregates    whoever read them has chosen already: all are told
    more                                 the first three, since the best come first
    aggregates                           three rows from across the groups

Across the groups: the largest group first (of equals, the one whose label sorts first), the first
row of each, then the second of each, until there are three. They are told in the order in which
they were found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from takeback.model.brevity import compact, cut, size
from takeback.model.handler import Group

Row = Mapping[str, Any]

CHOSEN_MAX = 8
"""So many rows are an answer; more are a stock of which a few are samples."""

SAMPLES = 3

VALUE_STEPS = (320, 160, 80, 40)
"""Bytes that a value may have, tried one after the other until the rows fit."""

NAME_BYTES_MAX = 40


def chosen(rows: Sequence[Row], groups: Sequence[Group], field: str | None) -> list[int]:
    """The places of the rows that are told, when there are too many of them or aggregates.

    ``field`` of a row names its group.

    >>> rows = [{"s": "open"}, {"s": "open"}, {"s": "open"}, {"s": "paid"}, {"s": "new"}]
    >>> groups = [Group(label="new", count=1), Group(label="open", count=3),
    ...           Group(label="paid", count=1)]
    >>> chosen(rows, groups, "s"), chosen(rows[:4], groups, "s"), chosen(rows, groups, None)
    ([0, 3, 4], [0, 1, 3], [0, 1, 2])
    """
    if field is None:
        return list(range(min(SAMPLES, len(rows))))
    places: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        queue = places.setdefault(str(row.get(field)), [])
        if len(queue) < SAMPLES:
            queue.append(place)
    largest = sorted(groups, key=lambda group: (-group.count, group.label))
    order = [one.label for one in largest if one.label in places]
    order += [label for label in places if label not in set(order)]
    taken: list[int] = []
    for turn in range(SAMPLES):
        taken += [places[label][turn] for label in order if turn < len(places[label])]
    return sorted(taken[:SAMPLES])


def fitted(rows: Sequence[Row], room: int) -> tuple[list[dict[str, Any]], bool]:
    """The rows in at most ``room`` bytes of JSON, and whether anything of them was cut.

    Values are shortened first, the longest most; then the last fields of each row are left out.

    >>> fitted([{"id": "O-1", "note": "x" * 500}], 100)[0][0]["note"][-2:]
    'x…'
    """
    whole = [dict(row) for row in rows]
    if size(whole) <= room:
        return whole, False
    for bytes_max in VALUE_STEPS:
        short = [_shortened(row, bytes_max, room) for row in rows]
        if size(short) <= room:
            return short, True
    each = (room - 2) // max(len(rows), 1) - 2
    return [_leading(row, each) for row in rows], True


def _shortened(row: Row, bytes_max: int, room: int) -> dict[str, Any]:
    """The row with its values cut; its fields as far as they can fit at all."""
    short: dict[str, Any] = {}
    for name, value in row.items():
        short[cut(name, NAME_BYTES_MAX)] = compact(value, bytes_max)
        if len(short) > room:
            break
    return short


def _leading(row: Row, room: int) -> dict[str, Any]:
    """The first fields of the row, as many as fit."""
    kept: dict[str, Any] = {}
    for name, value in row.items():
        grown = kept | {cut(name, NAME_BYTES_MAX): compact(value, VALUE_STEPS[-1])}
        if size(grown) > room:
            break
        kept = grown
    return kept
