"""Who acts: ``agent:NAME`` is an agent; ``user:NAME`` and a plain name are a person."""

from __future__ import annotations

UNNAMED = "agent:unknown"
"""Who acts where the code that calls does not say."""

_AGENT = "agent:"
_USER = "user:"


def is_agent(principal: str) -> bool:
    """Whether it is an agent's; only persons approve, force and freeze.

    >>> is_agent("agent:support"), is_agent("dana")
    (True, False)
    """
    return principal.startswith(_AGENT)


def is_same(one: str, other: str) -> bool:
    """Whether both name the same one: "user:dana" is "dana".

    >>> is_same("user:dana", "dana"), is_same("agent:dana", "dana")
    (True, False)
    """
    return one.removeprefix(_USER) == other.removeprefix(_USER)
