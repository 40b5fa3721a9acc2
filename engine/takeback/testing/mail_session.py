"""One session of the mail server: aiosmtpd's, with a fault at any stage."""

from __future__ import annotations

import asyncio
import hmac
import ssl
from typing import AnyStr, NoReturn

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from takeback.testing.mail_fault import Answer, Drop, MailStage, Stall
from takeback.testing.mailbox import Mailbox, ReceivedMail

# A client that neither speaks nor leaves; no test waits as long.
SESSION_SECONDS_MAX = 60.0


class MailSession(SMTP):
    """Speaks to one client, and puts what it accepts into ``mailbox``."""

    def __init__(
        self,
        mailbox: Mailbox,
        sessions: set[MailSession],
        *,
        loop: asyncio.AbstractEventLoop,
        credentials: tuple[str, str] | None,
        tls_context: ssl.SSLContext | None,
        smtputf8: bool,
    ) -> None:
        super().__init__(
            _Desk(),
            # Given, since looking the own name up may take seconds.
            hostname="localhost",
            timeout=SESSION_SECONDS_MAX,
            auth_require_tls=False,
            authenticator=self._check_password,
            auth_exclude_mechanism=() if credentials else ("PLAIN", "LOGIN"),
            tls_context=tls_context,
            enable_SMTPUTF8=smtputf8,
            loop=loop,
        )
        self.mailbox = mailbox
        self._sessions = sessions
        self._credentials = credentials
        self._greeted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Counts this session among the open ones, so that the server can cut it off."""
        self._sessions.add(self)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Forgets this session."""
        self._sessions.discard(self)
        super().connection_lost(error)

    def abort(self) -> None:
        """Cuts the connection."""
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()

    async def push(self, status: AnyStr) -> None:
        """Says ``status``, or what the fault at this stage says instead."""
        line = _octets(status)
        if not self._greeted:
            self._greeted = True
            reply = await self.meddled(MailStage.CONNECT)
            line = line if reply is None else reply.encode()
        await super().push(line)
        if line.startswith(b"421"):
            await self._close()
        if line.startswith(b"354"):
            await self.meddled(MailStage.BODY)

    async def smtp_MAIL(self, arg: str | None) -> None:  # noqa: N802
        """MAIL, once logged in where that is required."""
        reply = await self.meddled(MailStage.MAIL)
        assert self.session is not None
        if reply is None and self._credentials and not self.session.authenticated:
            reply = "530 5.7.0 Authentication required"
        await (super().smtp_MAIL(arg) if reply is None else self.push(reply))

    async def smtp_RCPT(self, arg: str | None) -> None:  # noqa: N802
        """RCPT."""
        reply = await self.meddled(MailStage.RCPT)
        await (super().smtp_RCPT(arg) if reply is None else self.push(reply))

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802
        """DATA; what follows goes to ``receive``."""
        reply = await self.meddled(MailStage.DATA)
        await (super().smtp_DATA(arg) if reply is None else self.push(reply))

    async def receive(self, sender: str, recipients: tuple[str, ...], raw: bytes) -> str:
        """Accepts a whole message; answers what is to be said about it."""
        reply = await self.meddled(MailStage.END)
        if reply is not None:
            return reply
        encrypted = (
            self.transport is not None and self.transport.get_extra_info("sslcontext") is not None
        )
        mail = ReceivedMail.parse(sender, recipients, raw, encrypted=encrypted)
        self.mailbox.accept(mail)
        await self.meddled(MailStage.ACCEPTED)
        return f"250 2.0.0 accepted {mail.message_id}"

    async def meddled(self, stage: MailStage) -> str | None:
        """Makes the fault meant for ``stage``; what to answer instead of the usual, or None."""
        match self.mailbox.take(stage):
            case Answer(reply=reply):
                return reply
            case Stall():
                await self.mailbox.stall(seconds_max=SESSION_SECONDS_MAX)
            case Drop():
                if stage is MailStage.BODY:
                    await self._reader.readuntil(b"\r\n")
                await self._drop()
            case None:
                pass
        return None

    async def _drop(self) -> NoReturn:
        self.abort()
        await _until_cancelled()

    async def _close(self) -> NoReturn:
        if self.transport is not None:
            self.transport.close()
        await _until_cancelled()

    def _check_password(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, login: object
    ) -> AuthResult:
        assert isinstance(login, LoginPassword)
        assert self._credentials is not None
        given = login.login + b"\0" + login.password
        right = hmac.compare_digest(given, "\0".join(self._credentials).encode())
        return AuthResult(success=right, handled=False)


def _octets(status: str | bytes) -> bytes:
    return status.encode() if isinstance(status, str) else status


class _Desk:
    """The one hook that aiosmtpd calls between the final dot and its answer."""

    async def handle_DATA(  # noqa: N802
        self, server: MailSession, session: Session, envelope: Envelope
    ) -> str:
        raw = envelope.original_content
        assert isinstance(raw, bytes)
        return await server.receive(envelope.mail_from or "", tuple(envelope.rcpt_tos), raw)


async def _until_cancelled() -> NoReturn:
    """Waits for the end of the connection, at which aiosmtpd cancels its session."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError("a session outlived its connection")
