"""How like two words are: what the "did you mean" of every refusal stands on.

Nothing here decides anything: a look-alike is shown, never acted upon.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

# Longer words are compared by their beginnings: bounds the time that a refusal takes.
_LENGTH_MAX = 32

_SEPARATORS = str.maketrans({"-": "_", " ": "_"})
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# In a shorter name one letter more or less makes another word: to, no, id, ip.
_SLIP_LENGTH_MIN = 3


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

    Width too: what an input method for Chinese or Japanese writes is the same letter.

    >>> folded(" Requested-by Customer "), folded("ＥＵＲ")
    ('requested_by_customer', 'eur')
    """
    text = unicodedata.normalize("NFKC", word).strip().casefold()
    return unicodedata.normalize("NFKC", text).translate(_SEPARATORS)


def alike(one: str, other: str) -> bool:
    """Whether two words are one in two spellings; humps are separators too.

    >>> alike("requestedByCustomer", "REQUESTED BY CUSTOMER"), alike("opened", "open")
    (True, False)
    """
    return folded(one) == folded(other) or _unhumped(one) == _unhumped(other)


def is_slip(name: str, meant: str) -> bool:
    """Whether a name is another one in another spelling, or but for one slip of the keyboard.

    Another digit is another name, and so is one letter more or less in a very short one.

    >>> is_slip("chargeId", "charge_id"), is_slip("chrage_id", "charge_id")
    (True, True)
    >>> is_slip("line2", "line1"), is_slip("on", "no")
    (False, False)
    """
    if max(len(name), len(meant)) > 2 * _LENGTH_MAX:
        return False
    one, other = _unhumped(name).replace("_", ""), _unhumped(meant).replace("_", "")
    if one == other:
        return True
    if min(len(one), len(other)) < _SLIP_LENGTH_MIN or _digits(one) != _digits(other):
        return False
    return distance(one, other) == 1


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


def best_first(query: str, names: Iterable[str]) -> list[str]:
    """The names, best answer to a search first.

    Spelt so, of the same words, beginning so, holding it, sharing words, or just like it.

    >>> best_first("korea", ["IRAN", "NORTH_KOREA", "KOREA_REPUBLIC_OF", "KOREA"])
    ['KOREA', 'KOREA_REPUBLIC_OF', 'NORTH_KOREA', 'IRAN']
    """
    wanted = folded(query[: 4 * _LENGTH_MAX])

    words = set(wanted.split("_"))

    def answers(name: str) -> int:
        other = folded(name)
        if other == wanted:
            return 0
        if words == (others := set(other.split("_"))):
            return 1
        if wanted in other:
            return 2 if other.startswith(wanted) else 3
        return 4 + len(words) - len(words & others)

    return sorted(nearest_first(query, names), key=answers)


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


def _unhumped(word: str) -> str:
    return folded(_HUMP.sub("_", word))


def _digits(word: str) -> list[str]:
    return [character for character in word if character.isdigit()]
