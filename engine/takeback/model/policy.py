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


class Verdict(StrEnum):
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


def verdict_of(answer: object) -> Verdict:
    """The word that an answer is; what is none of them means that a person decides.

    >>> verdict_of("allow"), verdict_of(None), verdict_of(True), verdict_of("ALLOW")
    (<Verdict.ALLOW: 'allow'>, <Verdict.ASK: 'ask'>, <Verdict.ASK: 'ask'>, <Verdict.ASK: 'ask'>)
    """
    if isinstance(answer, str) and answer in tuple(Verdict):
        return Verdict(answer)
    return Verdict.ASK
