"""An app's own policy: a function that is asked before anything is recorded.

What it answers is one of three words. Anything else, nothing and an exception included, is no
permission: a person decides then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from takeback.declare import Tier


class Permission(StrEnum):
    """What a policy says of a call."""

    ALLOW = "allow"
    ASK = "ask"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A call that writes, as a policy sees it; ``arguments`` are validated, in canonical form."""

    tool: str
    tier: Tier
    arguments: Mapping[str, Any]
    run: str | None
    principal: str
    on_behalf_of: str | None
    repeat_of: str | None


Policy = Callable[[Proposal], Any]


def permission_of(answer: object) -> Permission:
    """The word that an answer is; what is none of them means that a person decides.

    >>> [permission_of(word).value for word in ("allow", "refuse", "ALLOW", True, None)]
    ['allow', 'refuse', 'ask', 'ask', 'ask']
    """
    if isinstance(answer, str) and answer in tuple(Permission):
        return Permission(answer)
    return Permission.ASK
