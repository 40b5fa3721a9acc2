"""Refs: the short legible names of intents, such as refund_charge-7F3K9QDM.

Seven random characters of Crockford's base 32 and a check. The check makes the eight digits d a
word of the code  sum(d[i] * a^(7-i)) = 0  over GF(32), where a generates the field: no coefficient
is zero, so any one wrong character is detected, and no two neighbours are equal, so swapping any
two adjacent characters is too. A ref with a wrong check names no intent, never another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NewType

from takeback.model.likeness import look_alikes

Ref = NewType("Ref", str)

# Crockford's digits: no I, L, O (read as 1, 1, 0) and no U.
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

ENTROPY_BYTES = 5

LENGTH_MAX = 80
"""A ref has at most 72 characters; what is much longer is like none."""
_CODE_LENGTH = 8
_RANDOM_BITS = 35

# x^5 + x^4 + x^2 + x + 1: primitive over GF(2), so that x generates all 31 units; of the six such
# it is the one under which the code of the documented example, 7F3K9QDM, is right.
_POLYNOMIAL = 0b110111


_DIGITS = {character: digit for digit, character in enumerate(ALPHABET)}
_SHAPE = re.compile(rf"[a-z][a-z0-9_]{{0,62}}-[{ALPHABET}]{{{_CODE_LENGTH}}}")
_MISREAD = str.maketrans("abcdefghijklmnopqrstuvwxyzOIL", "ABCDEFGH1JK1MN0PQRSTUVWXYZ011")


def make_ref(tool: str, entropy: bytes) -> Ref:
    """The ref of a new intent, from five random bytes, of which 35 bits are used.

    Refs are unique per tenant by a constraint, not by luck: draw again when one is taken.

    >>> make_ref("refund_charge", bytes.fromhex("3bc734dda0"))
    'refund_charge-7F3K9QDM'
    """
    if len(entropy) != ENTROPY_BYTES:
        raise ValueError(f"a ref takes {ENTROPY_BYTES} bytes of entropy, not {len(entropy)}")
    number = int.from_bytes(entropy) >> (8 * ENTROPY_BYTES - _RANDOM_BITS)
    digits = [number >> shift & 31 for shift in range(_RANDOM_BITS - 5, -1, -5)]
    digits.append(_syndrome([*digits, 0]))
    return Ref(f"{tool}-{''.join(ALPHABET[digit] for digit in digits)}")


def normalise(text: str) -> Ref:
    """The ref as it is stored, from one read aloud, copied or typed.

    Outer spaces go; in the code, and there only, letters are upper-cased and O, I, L are read as
    0, 1, 1. What is not shaped like a ref comes back trimmed, and is no ref.

    >>> normalise("  refund_charge-7f3k9qdm ")
    'refund_charge-7F3K9QDM'
    >>> normalise("close_all-OIL00000")
    'close_all-01100000'
    """
    tool, dash, code = text.strip().rpartition("-")
    return Ref(f"{tool}{dash}{code.translate(_MISREAD)}" if dash else code)


def is_wellformed(ref: str) -> bool:
    """Whether it has the shape of a ref and its check is right.

    >>> is_wellformed("refund_charge-7F3K9QDM"), is_wellformed("refund_charge-7F3K9QDN")
    (True, False)
    """
    if _SHAPE.fullmatch(ref) is None:
        return False
    return _syndrome([_DIGITS[character] for character in ref[-_CODE_LENGTH:]]) == 0


def beginnings(text: str) -> tuple[str, ...]:
    """What the refs that may be meant begin with, the closest first; none where it is like no ref.

    >>> beginnings("refund_charge-7F3K9QD"), beginnings("refund")
    (('refund_charge-7F', 'refund_charge-'), ())
    """
    tool, dash, code = text.rpartition("-")
    if not dash or len(text) > LENGTH_MAX or not (text.isascii() and text.isprintable()):
        return ()
    return f"{tool}-{code[:2]}", f"{tool}-"


def nearest(ref: str, candidates: Iterable[str]) -> tuple[Ref, ...]:
    """The candidates at most two edits away, nearest first; for "did you mean", never to act on.

    >>> nearest("refund_charge-7F3K9QDN", ["refund_charge-7F3K9QDM", "refund_charge-00000000"])
    ('refund_charge-7F3K9QDM',)
    """
    return tuple(Ref(candidate) for candidate in look_alikes(ref, candidates))


def _syndrome(digits: list[int]) -> int:
    """The sum above, by Horner's rule; zero for a right code."""
    total = 0
    for digit in digits:
        total <<= 1
        if total > 31:
            total ^= _POLYNOMIAL
        total ^= digit
    return total
