"""A real SMTP server on this machine, in a thread of its own, that fails on request.

    with MailServer() as mail:
        mail.inject(Drop(at=MailStage.ACCEPTED))
        ...                                   # the client hears nothing
        assert len(mail.messages) == 1        # and it was delivered all the same

It listens on 127.0.0.1 only. A client in any process can reach it by its ``url``.
"""

from __future__ import annotations

import asyncio
import queue
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from takeback.testing.mail_fault import MailFault
from takeback.testing.mail_session import MailSession
from takeback.testing.mailbox import Mailbox, ReceivedMail

_HOST = "127.0.0.1"
_START_SECONDS_MAX = 10.0
_STOP_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """``context`` is what the server serves, ``cafile`` what a client has to trust."""

    cafile: Path
    context: ssl.SSLContext


class MailServer:
    """Accepts mail for anybody and keeps it in ``messages``.

    With a ``certificate`` it offers STARTTLS, or with ``implicit_tls`` speaks TLS from the first
    byte on. With ``credentials`` it refuses mail from whoever has not logged in. ``smtputf8``
    says whether it takes addresses that are not ASCII. ``port`` 0 takes any that is free, and
    the same one again after ``stop`` and ``start``.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        certificate: Certificate | None = None,
        implicit_tls: bool = False,
        credentials: tuple[str, str] | None = None,
        smtputf8: bool = True,
    ) -> None:
        if implicit_tls and certificate is None:
            raise ValueError("implicit_tls=True needs a certificate")
        self.port = port
        self._certificate = certificate
        self._implicit_tls = implicit_tls
        self._credentials = credentials
        self._smtputf8 = smtputf8
        self._mailbox = Mailbox()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """How a client reaches it, as ``SmtpServer.from_url`` takes it."""
        user = ""
        if self._credentials is not None:
            user = ":".join(quote(word, safe="") for word in self._credentials) + "@"
        at = f"{user}{_HOST}:{self.port}"
        if self._certificate is None:
            return f"smtp://{at}?tls=none"
        cafile = f"cafile={quote(str(self._certificate.cafile), safe='/')}"
        return f"smtps://{at}?{cafile}" if self._implicit_tls else f"smtp://{at}?{cafile}"

    @property
    def messages(self) -> list[ReceivedMail]:
        """Every message accepted so far, in order, also those whose sender never heard of it."""
        return self._mailbox.messages()

    @property
    def pending_faults(self) -> tuple[MailFault, ...]:
        """Faults that no message has met yet."""
        return self._mailbox.pending()

    def inject(self, fault: MailFault, *, messages: int = 1) -> None:
        """Makes ``fault`` happen to the next ``messages`` that come to its stage."""
        self._mailbox.inject(fault, messages=messages)

    def release(self) -> None:
        """Ends every stall of this moment: those sessions go on as if nothing had been."""
        self._mailbox.release()

    def wait_for_messages(self, count: int, *, seconds_max: float = 10.0) -> bool:
        """Whether ``count`` messages were accepted within ``seconds_max``."""
        return self._mailbox.wait_for_messages(count, seconds_max=seconds_max)

    def wait_for_stall(self, *, seconds_max: float = 10.0) -> bool:
        """Whether a session has come to a stall within ``seconds_max``."""
        return self._mailbox.wait_for_stall(seconds_max=seconds_max)

    def start(self) -> None:
        """Listens, when it does not yet. Raises OSError when the port is taken."""
        if self._thread is not None:
            return
        started: queue.SimpleQueue[int | OSError] = queue.SimpleQueue()
        thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(started)), name="mail-server", daemon=True
        )
        thread.start()
        answer = started.get(timeout=_START_SECONDS_MAX)
        if isinstance(answer, OSError):
            thread.join()
            raise answer
        self.port = answer
        self._thread = thread

    def stop(self) -> None:
        """Cuts every connection and refuses new ones; ``start`` listens again."""
        thread, self._thread = self._thread, None
        if thread is None or self._loop is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        thread.join(timeout=_STOP_SECONDS_MAX)
        if thread.is_alive():
            raise TimeoutError(f"the mail server did not stop in {_STOP_SECONDS_MAX} s")

    async def _serve(self, started: queue.SimpleQueue[int | OSError]) -> None:
        sessions: set[MailSession] = set()
        self._loop = loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            # Bound by the loop itself, so that port 0 works; aiosmtpd's controller can't.
            server = await loop.create_server(
                lambda: self._session(loop, sessions),
                _HOST,
                self.port,
                ssl=self._context(implicit=True),
            )
        except OSError as exc:
            started.put(exc)
            return
        started.put(server.sockets[0].getsockname()[1])
        await self._stopping.wait()
        server.close()
        while sessions:
            for session in tuple(sessions):
                session.abort()
            await asyncio.sleep(0)

    def _session(self, loop: asyncio.AbstractEventLoop, sessions: set[MailSession]) -> MailSession:
        return MailSession(
            self._mailbox,
            sessions,
            loop=loop,
            credentials=self._credentials,
            tls_context=self._context(implicit=False),
            smtputf8=self._smtputf8,
        )

    def _context(self, *, implicit: bool) -> ssl.SSLContext | None:
        """The TLS context, for the kind of TLS that this server speaks."""
        if self._certificate is None or self._implicit_tls is not implicit:
            return None
        return self._certificate.context
