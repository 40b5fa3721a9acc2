"""Who acts: ``agent:NAME`` is an agent; ``user:NAME`` and a plain name are a person."""

from __future__ import annotations

import unicodedata

UNNAMED = "agent:unknown"
"""Who acts where the code that calls does not say."""

_AGENT = "agent:"
_USER = "user:"


def is_agent(principal: str) -> bool:
    """Whether it is an agent's, in any spelling; only persons approve, force and freeze.

    >>> is_agent("agent:support"), is_agent("dana")
    (True, False)
    >>> is_agent("user:agent:support")
    True
    """
    return _plain(principal).startswith(_AGENT)


def is_same(one: str, other: str) -> bool:
    """Whether both name the same one: "user:dana", "Dana" and "dana" do.

    >>> is_same("user:Dana", "dana"), is_same("agent:dana", "dana")
    (True, False)
    """
    return _plain(one) == _plain(other)


def _plain(principal: str) -> str:
    """The one spelling in which two are compared, since a person's second hand is no second person.

    A name written wide, in capitals, in parts or as "user:user:" is the same name.
    """
    folded = unicodedata.normalize("NFKC", principal).casefold()
    plain = unicodedata.normalize("NFKC", folded)
    while plain.startswith(_USER):
        plain = plain.removeprefix(_USER)
    return plain
