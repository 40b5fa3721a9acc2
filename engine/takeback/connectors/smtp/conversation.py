"""One SMTP session, every wait of which ends by a deadline.

``smtplib`` knows the protocol; this knows time and sides. Replies are read here and not by
``smtplib``, for three reasons: it waits anew for every packet, so a dripping server outlasts any
bound; it takes half a line before a dropped connection for a reply; and it reads ahead, so that
one reply too many would later be taken for the answer to the message.

Everything raised is an ``OSError`` (``smtplib.SMTPException`` is one).
"""

from __future__ import annotations

import base64
import re
import smtplib
import socket
import ssl
from contextlib import suppress
from enum import StrEnum
from typing import Self

from takeback.connectors.smtp.connection import Deadline, address_literal, connect
from takeback.connectors.smtp.server import SmtpServer, Tls

_REPLY_LINE = re.compile(rb"([2-5][0-9]{2})(?:([ -])(.*))?", re.DOTALL)
_REPLY_BYTES_MAX = 65_536
_CHUNK_BYTES = 4096

# The farewell is a courtesy: the message has its answer by then, and a worker waits for this.
_QUIT_SECONDS_MAX = 2.0


class Step(StrEnum):
    """What a reply was about."""

    GREETING = "greeting"
    EHLO = "EHLO"
    STARTTLS = "STARTTLS"
    AUTH = "AUTH"
    MAIL = "MAIL"
    RCPT = "RCPT"
    DATA = "DATA"
    MESSAGE = "message"


class ReplyRefused(smtplib.SMTPException):
    """A reply that is not the one hoped for; ``about`` is the address it is about, if any."""

    def __init__(self, *, step: Step, code: int, text: str, about: str | None = None) -> None:
        super().__init__(f"{step}: {code} {text}".rstrip())
        self.step = step
        self.code = code
        self.text = text
        self.about = about


class SessionUnusable(smtplib.SMTPException):
    """The server is there, but nothing can be sent through it as it is set up; says what to do."""


class ReplyUnreadable(smtplib.SMTPException):
    """What came back is no SMTP reply, or is one that nobody may rely on."""


class Conversation(smtplib.SMTP):
    """A connected session. ``deadline`` may be replaced between two steps."""

    def __init__(self, server: SmtpServer, connection: socket.socket, deadline: Deadline) -> None:
        # No host: smtplib is not to connect. The name is given, since looking it up may hang.
        super().__init__(local_hostname=server.helo or address_literal(connection))
        self.server = server
        self.deadline = deadline
        self.connection = connection
        self.sock = connection
        self._unread = bytearray()

    @classmethod
    def open(cls, server: SmtpServer, deadline: Deadline) -> Self:
        """Connects, encrypts, introduces itself and logs in, as ``server`` says."""
        within = deadline.sooner(server.timeout_seconds)
        conversation = cls(server, connect(server.host, server.port, within), deadline)
        try:
            if server.tls is Tls.IMPLICIT:
                conversation._encrypt()
            conversation.expect("220", Step.GREETING)
            conversation._introduce()
            if server.tls in (Tls.WHEN_OFFERED, Tls.STARTTLS):
                conversation._start_tls()
            conversation._log_in()
        except BaseException:
            conversation.close()
            raise
        return conversation

    @property
    def is_encrypted(self) -> bool:
        """Whether what is sent now goes through TLS."""
        return isinstance(self.connection, ssl.SSLSocket)

    def send(self, s: object) -> None:
        """Writes all of ``s``, text or bytes, within the deadline."""
        if isinstance(s, str):
            s = s.encode(self.command_encoding)
        assert isinstance(s, bytes | bytearray | memoryview)
        within = self.deadline.sooner(self.server.timeout_seconds)
        view = memoryview(s)
        while view:
            self.connection.settimeout(within.seconds_left())
            view = view[self.connection.send(view) :]

    def getreply(self) -> tuple[int, bytes]:
        """The next reply: its code, and the text of its lines joined by newlines."""
        within = self.deadline.sooner(self.server.timeout_seconds)
        code: bytes | None = None
        text = bytearray()
        while True:
            line = self._line(within)
            match = _REPLY_LINE.fullmatch(line)
            if match is None or code not in (None, match[1]):
                raise ReplyUnreadable(f"this is no SMTP reply: {line[:80]!r}")
            code = match[1]
            text += (match[3] or b"").strip()
            if match[2] != b"-":
                return int(code), bytes(text)
            text += b"\n"
            if len(text) > _REPLY_BYTES_MAX:
                raise ReplyUnreadable("a reply without an end")

    def _line(self, within: Deadline) -> bytes:
        while b"\n" not in self._unread:
            if len(self._unread) > _REPLY_BYTES_MAX:
                raise ReplyUnreadable("a reply line without an end")
            self.connection.settimeout(within.seconds_left())
            received = self.connection.recv(_CHUNK_BYTES)
            if not received:
                raise smtplib.SMTPServerDisconnected("the server closed the connection")
            self._unread += received
        line, _, rest = bytes(self._unread).partition(b"\n")
        self._unread[:] = rest
        return line.removesuffix(b"\r")

    def expect(self, hoped: str, step: Step, *, about: str | None = None) -> None:
        """Reads a reply. Raises ReplyRefused when its code does not begin with ``hoped``."""
        code, text = self.getreply()
        if not str(code).startswith(hoped):
            raise ReplyRefused(step=step, code=code, text=readable(text), about=about)

    def ask(self, line: str, hoped: str, step: Step, *, about: str | None = None) -> None:
        """Sends one command line and reads its reply, as ``expect`` does."""
        self.putcmd(line)
        self.expect(hoped, step, about=about)

    def refuse_early_reply(self, step: Step) -> None:
        """Raises when the server has said something, or hung up, before it was asked.

        What is there already can't be an answer to what is sent next, and must not become one.
        """
        self.connection.settimeout(0)
        with suppress(BlockingIOError, ssl.SSLWantReadError):
            received = self.connection.recv(_CHUNK_BYTES)
            if not received:
                raise smtplib.SMTPServerDisconnected("the server closed the connection")
            self._unread += received
        if self._unread:
            code, text = self.getreply()
            raise ReplyRefused(step=step, code=code, text=readable(text))

    def part(self) -> None:
        """Says goodbye, if the server still listens; whatever it answers changes nothing."""
        with suppress(OSError):
            self.deadline = self.deadline.sooner(_QUIT_SECONDS_MAX)
            self.docmd("QUIT")
        self.close()

    def _introduce(self) -> None:
        code, text = self.ehlo()
        if code >= 500:
            # A server of before 1995, or a filter that knows no better.
            code, text = self.helo()
        if not 200 <= code < 300:
            raise ReplyRefused(step=Step.EHLO, code=code, text=readable(text))

    def _start_tls(self) -> None:
        if self.has_extn("starttls"):
            self.ask("STARTTLS", "220", Step.STARTTLS)
            if self._unread:
                # Sent in plain text by whoever sits in between, to be read as if encrypted.
                raise ReplyUnreadable("the server went on talking after STARTTLS")
            self._encrypt()
            self._introduce()
        elif self.server.tls is Tls.STARTTLS:
            raise SessionUnusable(
                f"the server {self.server.host!r} offers no STARTTLS and the settings require it; "
                "correct the host or port, use smtps://, or write tls=none to send in plain text"
            )

    def _encrypt(self) -> None:
        try:
            context = ssl.create_default_context(cafile=self.server.cafile)
        except OSError as exc:
            raise SessionUnusable(
                f"the file of authorities {self.server.cafile!r} can't be read; correct cafile="
            ) from exc
        within = self.deadline.sooner(self.server.timeout_seconds)
        self.connection.settimeout(within.seconds_left())
        try:
            self.connection = context.wrap_socket(self.connection, server_hostname=self.server.host)
        except ssl.SSLCertVerificationError as exc:
            raise SessionUnusable(
                f"the certificate of {self.server.host!r} is not trusted "
                f"({exc.verify_message}); name its authority with cafile=, or correct the host"
            ) from exc
        self.sock = self.connection

    def _log_in(self) -> None:
        # Not smtplib's login: it takes ASCII passwords only, and may try three schemes in a row.
        user, password = self.server.user, self.server.password
        if user is None or password is None:
            return
        if not self.is_encrypted and self.server.tls is not Tls.NONE:
            raise SessionUnusable(
                f"the server {self.server.host!r} offers no STARTTLS, and a password is not sent "
                "in plain text; use another port or smtps://, or write tls=none to allow it"
            )
        offered = self.esmtp_features.get("auth", "").upper().split()
        if "PLAIN" in offered:
            self.ask("AUTH PLAIN " + _base64("\0".join(("", user, password))), "235", Step.AUTH)
        elif "LOGIN" in offered:
            self.ask("AUTH LOGIN", "334", Step.AUTH)
            self.ask(_base64(user), "334", Step.AUTH)
            self.ask(_base64(password), "235", Step.AUTH)
        else:
            raise SessionUnusable(
                f"the server {self.server.host!r} takes no password here (neither AUTH PLAIN nor "
                "AUTH LOGIN); remove user and password from the URL, or correct the port"
            )


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def readable(text: bytes) -> str:
    """A server's words as one short line of printable text.

    >>> readable(b"2.0.0 Ok:\\nqueued as 4F3")
    '2.0.0 Ok: queued as 4F3'
    """
    words = " ".join(text.decode("utf-8", "replace").split())
    return "".join(character for character in words if character.isprintable())[:200]
