"""How like two words are: what the "did you mean" of every refusal stands on.

Nothing here decides anything: a look-alike is shown, never acted upon.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

# Longer words are compared by their beginnings: bounds the time that a refusal takes.
_LENGTH_MAX = 32

_SEPARATORS = str.maketrans({"-": "_", " ": "_"})


def distance(one: str, other: str) -> int:
    """How many single edits lie between two words: insert, delete, replace, or swap two neighbours.

    >>> distance("pending", "pednign"), distance("open", "opens"), distance("a", "")
    (2, 1, 1)
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, character in enumerate(one, 1):
        before, above, row = row, before, [i]
        for j, opposite in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + int(character != opposite))
            if i > 1 and j > 1 and character == other[j - 2] and one[i - 2] == opposite:
                cost = min(cost, above[j - 2] + 1)
            row.append(cost)
    return row[-1]


def folded(word: str) -> str:
    """The word without what people spell as they like: case, outer spaces, and "-", "_", " ".

    >>> folded(" Requested-by Customer ")
    'requested_by_customer'
    """
    text = unicodedata.normalize("NFC", word).strip().casefold()
    return unicodedata.normalize("NFC", text).translate(_SEPARATORS)


def nearest_first(word: str, words: Iterable[str]) -> list[str]:
    """The words, most like ``word`` first; equally like ones keep their order.

    >>> nearest_first("OPENED", ["closed", "pending", "open"])
    ['open', 'closed', 'pending']
    """
    wanted = folded(word[: 2 * _LENGTH_MAX])[:_LENGTH_MAX]

    def unlikeness(candidate: str) -> tuple[int, int]:
        other = folded(candidate)[:_LENGTH_MAX]
        begins_alike = bool(wanted) and (other.startswith(wanted) or wanted.startswith(other))
        return distance(wanted, other) - 2 * int(begins_alike), abs(len(wanted) - len(other))

    return sorted(words, key=unlikeness)


def look_alikes(word: str, words: Iterable[str], *, distance_max: int = 2) -> Sequence[str]:
    """Those words that a slip of the keyboard could have turned into ``word``, nearest first.

    >>> look_alikes("serch_orders", ["delete_customer", "search_orders"])
    ['search_orders']
    """
    if len(word) > 4 * _LENGTH_MAX:
        return []
    near = (
        (distance(word, other), other)
        for other in words
        if abs(len(word) - len(other)) <= distance_max
    )
    return [other for apart, other in sorted(near) if 0 < apart <= distance_max]
