"""What keeps an intent from beginning although it may be due: a freeze, or a paused connector.

It is no part of the intent, and no event tells it: it is read beside the intent, as it stands then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

THAW = "a person lets it go on"
ANSWER = "its provider answers again"
"""When each of the two is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindrance:
    """Whether a person has stopped it, and the name of its connector while that is paused."""

    is_frozen: bool = False
    paused: str | None = None

    def __bool__(self) -> bool:
        return self.is_frozen or self.paused is not None

    def told(self) -> list[dict[str, Any]]:
        """What an answer says of it.

        >>> Hindrance(paused="post").told()
        [{'kind': 'connector', 'connector': 'post', 'ends_when': 'its provider answers again'}]
        """
        freeze: dict[str, Any] = {"kind": "freeze", "ends_when": THAW}
        pause = {"kind": "connector", "connector": self.paused, "ends_when": ANSWER}
        return [freeze] * self.is_frozen + [pause] * (self.paused is not None)

    def sentence(self) -> str:
        """When it is over, and what it is, behind "does not begin before".

        >>> Hindrance(is_frozen=True).sentence()
        'a person lets it go on: it is frozen'
        """
        ends = [THAW] * self.is_frozen + [ANSWER] * (self.paused is not None)
        what = ["it is frozen"] * self.is_frozen
        what += [f"its connector {self.paused} is paused"] * (self.paused is not None)
        return f"{' and '.join(ends)}: {', and '.join(what)}"


UNHINDERED = Hindrance()
