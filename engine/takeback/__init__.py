"""Durable, undoable side effects for AI agents, on Postgres.

    from takeback import Takeback

    app = Takeback(CATALOG, handlers=handlers)
    with Session(db) as session, session.begin():
        result = app.call(session, "send_customer_email", arguments, run="run-42")

Importing this package loads nothing else: each name is found when it is first used, so that a
declaration file, which imports ``takeback.declare``, needs no database driver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from takeback.app import Takeback
    from takeback.client.batching import Call
    from takeback.client.looking import Shown
    from takeback.ledger.barrier import Page
    from takeback.ledger.faults import Fault
    from takeback.model.door import Door
    from takeback.model.envelope import Envelope
    from takeback.model.errors import (
        HandlerError,
        InvalidCatalog,
        InvalidReference,
        InvalidSettings,
        NoAccess,
        NoSuchRef,
        NotDispatched,
        NotRestorable,
        OutcomeUnknown,
        Rejected,
        RestoreConflict,
        RetryTransaction,
        TakebackError,
        TransactionAborted,
        Unavailable,
    )
    from takeback.model.handler import (
        Absent,
        Affected,
        Attempt,
        Found,
        Group,
        Handler,
        Original,
        Performed,
    )
    from takeback.model.payload import Full
    from takeback.model.policy import Permission, Proposal
    from takeback.settings import Settings

_HOMES = {
    "takeback.app": ("Takeback",),
    "takeback.client.batching": ("Call",),
    "takeback.client.looking": ("Shown",),
    "takeback.ledger.barrier": ("Page",),
    "takeback.ledger.faults": ("Fault",),
    "takeback.model.door": ("Door",),
    "takeback.model.envelope": ("Envelope",),
    "takeback.model.errors": (
        "HandlerError",
        "InvalidCatalog",
        "InvalidReference",
        "InvalidSettings",
        "NoAccess",
        "NoSuchRef",
        "NotDispatched",
        "NotRestorable",
        "OutcomeUnknown",
        "Rejected",
        "RestoreConflict",
        "RetryTransaction",
        "TakebackError",
        "TransactionAborted",
        "Unavailable",
    ),
    "takeback.model.handler": (
        "Absent",
        "Affected",
        "Attempt",
        "Found",
        "Group",
        "Handler",
        "Original",
        "Performed",
    ),
    "takeback.model.payload": ("Full",),
    "takeback.model.policy": ("Permission", "Proposal"),
    "takeback.settings": ("Settings",),
}

_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Absent",
    "Affected",
    "Attempt",
    "Call",
    "Door",
    "Envelope",
    "Fault",
    "Found",
    "Full",
    "Group",
    "Handler",
    "HandlerError",
    "InvalidCatalog",
    "InvalidReference",
    "InvalidSettings",
    "NoAccess",
    "NoSuchRef",
    "NotDispatched",
    "NotRestorable",
    "Original",
    "OutcomeUnknown",
    "Page",
    "Performed",
    "Permission",
    "Proposal",
    "Rejected",
    "RestoreConflict",
    "RetryTransaction",
    "Settings",
    "Shown",
    "Takeback",
    "TakebackError",
    "TransactionAborted",
    "Unavailable",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'takeback' has no attribute {name!r}")
    return getattr(import_module(home), name)
