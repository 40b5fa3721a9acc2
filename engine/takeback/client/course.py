"""How far one request has come: what is true of its effect if it breaks at this point."""

from __future__ import annotations

from dataclasses import dataclass, field

from takeback.ledger.faults import Breakage
from takeback.ledger.transaction import Tx
from takeback.model.code import WireEffect


@dataclass(slots=True, kw_only=True)
class Course:
    """One request on its way: what is asked for and by whom, not checked yet.

    ``own_effect`` is that of a transaction of ours, ``tx`` the caller's where it is in one.
    ``breakages`` are kept once no transaction of ours is open any more.
    """

    tool: object
    run: object = None
    principal: object = None
    own_effect: WireEffect = "none"
    tx: Tx | None = None
    breakages: list[Breakage] = field(default_factory=list)

    @property
    def effect(self) -> WireEffect:
        """What became of the request; inside the caller's transaction their commit decides."""
        if self.tx is None:
            return self.own_effect
        return "unknown" if self.tx.wrote else "none"
