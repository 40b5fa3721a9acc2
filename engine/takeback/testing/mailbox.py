"""What a mail server has accepted, and the faults it is still to make; shared by its sessions.

Sessions run in the server's loop and tests in other threads: everything here is under one lock.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Self

from takeback.testing.mail_fault import MailFault, MailStage


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMail:
    """One accepted message: the envelope's addresses, what its headers say, and its bytes.

    ``text`` is the decoded plain part with plain newlines, without its last line break;
    ``encrypted`` says whether it came through TLS.
    """

    sender: str
    recipients: tuple[str, ...]
    subject: str
    message_id: str
    text: str
    raw: bytes
    encrypted: bool

    @classmethod
    def parse(
        cls, sender: str, recipients: tuple[str, ...], raw: bytes, *, encrypted: bool
    ) -> Self:
        """Reads ``raw``; a header or a text that is not there is empty."""
        message = message_from_bytes(raw, _class=EmailMessage, policy=default)
        body = message.get_body(("plain",))
        text = "" if body is None else str(body.get_content())
        return cls(
            sender=sender,
            recipients=recipients,
            subject=str(message.get("subject", "")),
            message_id=str(message.get("message-id", "")),
            text=text.replace("\r\n", "\n").removesuffix("\n"),
            raw=raw,
            encrypted=encrypted,
        )


class Mailbox:
    """Accepted messages in order, pending faults, and sessions that are being held up."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._messages: list[ReceivedMail] = []
        self._faults: list[MailFault] = []
        self._stalls: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def accept(self, mail: ReceivedMail) -> None:
        """Keeps ``mail``: from here on it is delivered, whatever its sender hears."""
        with self._changed:
            self._messages.append(mail)
            self._changed.notify_all()

    def messages(self) -> list[ReceivedMail]:
        """All accepted so far."""
        with self._changed:
            return list(self._messages)

    def inject(self, fault: MailFault, *, messages: int) -> None:
        """Queues ``fault`` for the next ``messages`` sessions that come to its stage."""
        if messages < 1:
            raise ValueError(f"messages={messages}: a fault is for 1 message or more")
        with self._changed:
            self._faults.extend([fault] * messages)

    def pending(self) -> tuple[MailFault, ...]:
        """Faults that no session has met yet."""
        with self._changed:
            return tuple(self._faults)

    def take(self, stage: MailStage) -> MailFault | None:
        """The first fault queued for ``stage``, or None."""
        with self._changed:
            for index, fault in enumerate(self._faults):
                if fault.at is stage:
                    return self._faults.pop(index)
            return None

    async def stall(self, *, seconds_max: float) -> None:
        """Holds a session until released, until its client leaves, or ``seconds_max``."""
        released = asyncio.Event()
        held = (asyncio.get_running_loop(), released)
        with self._changed:
            self._stalls.append(held)
            self._changed.notify_all()
        try:
            async with asyncio.timeout(seconds_max):
                await released.wait()
        finally:
            with self._changed:
                self._stalls.remove(held)

    def release(self) -> None:
        """Lets every session go on that is held at this moment."""
        with self._changed:
            for loop, released in self._stalls:
                loop.call_soon_threadsafe(released.set)

    def wait_for_messages(self, count: int, *, seconds_max: float) -> bool:
        """Whether ``count`` messages were accepted within ``seconds_max``."""
        return self._wait(lambda: len(self._messages) >= count, seconds_max=seconds_max)

    def wait_for_stall(self, *, seconds_max: float) -> bool:
        """Whether a session was held up within ``seconds_max``."""
        return self._wait(lambda: bool(self._stalls), seconds_max=seconds_max)

    def _wait(self, met: Callable[[], bool], *, seconds_max: float) -> bool:
        with self._changed:
            return self._changed.wait_for(met, timeout=seconds_max)
