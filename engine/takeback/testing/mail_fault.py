"""What a mail server can be told to do wrong, and at which moment of a session.

CONNECT ── MAIL ── RCPT ── DATA ── BODY ── END ── ACCEPTED
                                  │        │      └ the message is in the mailbox
                                  │        └ the final dot was read
                                  └ 354 was said, the first bytes were read
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MailStage(StrEnum):
    """A moment of a session, before the server's answer at that moment."""

    CONNECT = "connect"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    BODY = "body"
    END = "end"
    ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Says ``reply`` instead of the usual answer, such as ``550 5.1.1 no such mailbox``.

    There is none at BODY, where a server is silent, nor at ACCEPTED, where it would be a lie.
    """

    at: MailStage
    reply: str

    def __post_init__(self) -> None:
        if self.at in (MailStage.BODY, MailStage.ACCEPTED):
            raise ValueError(f"a server answers nothing at {self.at.value!r}; use END")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Cuts the connection without a word.

    At BODY one line has been read: a message that fits into the sockets' buffers may be out as a
    whole by then, final dot included, though the server has not taken it.
    """

    at: MailStage


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """Says nothing until released, or until the client gives up, then goes on as usual."""

    at: MailStage


MailFault = Answer | Drop | Stall
