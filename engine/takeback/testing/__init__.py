"""Fakes of the world: a mail server and two providers that fail in every way on request.

They are fakes of other people's services only, never of Takeback itself. Each counts what really
happened, also when it told its caller nothing: tests compare that with what the ledger believes.

Loaded one by one, since only the mail server needs aiosmtpd.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from takeback.testing.files import FakeFiles
    from takeback.testing.mail_fault import Answer, Drop, MailStage, Stall
    from takeback.testing.mail_server import Certificate, MailServer
    from takeback.testing.mailbox import ReceivedMail
    from takeback.testing.payments import Charge, FakePayments, Refund
    from takeback.testing.provider import (
        AnswerLost,
        ProviderBusy,
        ProviderDown,
        ProviderError,
        ProviderFault,
        ProviderRefused,
    )

_HOMES = {
    "Answer": "mail_fault",
    "AnswerLost": "provider",
    "Certificate": "mail_server",
    "Charge": "payments",
    "Drop": "mail_fault",
    "FakeFiles": "files",
    "FakePayments": "payments",
    "MailServer": "mail_server",
    "MailStage": "mail_fault",
    "ProviderBusy": "provider",
    "ProviderDown": "provider",
    "ProviderError": "provider",
    "ProviderFault": "provider",
    "ProviderRefused": "provider",
    "ReceivedMail": "mailbox",
    "Refund": "payments",
    "Stall": "mail_fault",
}

__all__ = [
    "Answer",
    "AnswerLost",
    "Certificate",
    "Charge",
    "Drop",
    "FakeFiles",
    "FakePayments",
    "MailServer",
    "MailStage",
    "ProviderBusy",
    "ProviderDown",
    "ProviderError",
    "ProviderFault",
    "ProviderRefused",
    "ReceivedMail",
    "Refund",
    "Stall",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
