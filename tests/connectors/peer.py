"""The far end of an SMTP connection, played line by line: it can stop at any byte."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from takeback.connectors.smtp import Email, SmtpServer, mailer
from takeback.model.handler import Attempt, Handler

SECONDS_MAX = 20.0


def attempt(*, number: int = 1, seconds_max: float = 5.0, intent_id: str = "0199") -> Attempt:
    return Attempt(
        intent_id=intent_id,
        ref="send_customer_email-7F3K9QDM",
        tenant="acme",
        run=None,
        principal="agent:support",
        number=number,
        provider_key="k",
        seconds_max=seconds_max,
    )


def email(**changes) -> Email:
    values = {
        "sender": "Shop <shop@example.com>",
        "to": "Dana Ruiz <dana@example.com>",
        "subject": "Your refund",
        "text": "It is on its way.",
        **changes,
    }
    return Email(**values)


def handler(url: str, **changes) -> Handler:
    return mailer(SmtpServer.from_url(url), lambda arguments, attempt: email(**changes))


@dataclass
class Peer:
    """One accepted connection, seen from the server."""

    connection: socket.socket
    given_up: threading.Event
    unread: bytes = b""
    heard: list[str] = field(default_factory=list)

    def say(self, *lines: str) -> None:
        self.connection.sendall("".join(f"{line}\r\n" for line in lines).encode())

    def hear(self) -> str:
        line = self.hear_until(b"\r\n").decode().removesuffix("\r\n")
        self.heard.append(line)
        return line

    def hear_until(self, end: bytes) -> bytes:
        while end not in self.unread:
            received = self.connection.recv(65_536)
            if not received:
                raise ConnectionError("the client hung up")
            self.unread += received
        head, _, self.unread = self.unread.partition(end)
        return head + end

    def hear_rest(self) -> bytes:
        """Everything that the client ever sent, once it has given up."""
        assert self.given_up.wait(SECONDS_MAX)
        rest = self.unread
        while received := self._receive():
            rest += received
        return rest

    def _receive(self) -> bytes:
        try:
            return self.connection.recv(1 << 20)
        except ConnectionError:
            return b""

    def stall(self) -> None:
        """Says nothing until the client has given up."""
        assert self.given_up.wait(SECONDS_MAX)

    def drop(self) -> None:
        """Resets the connection."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def open_session(self, *features: str) -> None:
        """Greets and answers EHLO."""
        self.say("220 ready")
        self.hear()
        names = ["here", *features]
        self.say(*(f"250-{name}" for name in names[:-1]), f"250 {names[-1]}")

    def take_envelope(self) -> None:
        """Answers MAIL and RCPT."""
        for _ in range(2):
            self.hear()
            self.say("250 ok")

    def take_message(self, *features: str) -> bytes:
        """Goes on until the final dot is read, and does not answer it."""
        self.open_session(*features)
        self.take_envelope()
        self.hear()
        self.say("354 go on")
        return self.hear_until(b"\r\n.\r\n")


@dataclass
class Server:
    """A listening socket that plays one script for its only client."""

    port: int
    given_up: threading.Event
    peers: list[Peer] = field(default_factory=list)

    @property
    def was_met(self) -> bool:
        return bool(self.peers)

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}?tls=none"

    @property
    def heard(self) -> list[str]:
        return [line for peer in self.peers for line in peer.heard]

    def client_has_given_up(self) -> None:
        self.given_up.set()


@contextmanager
def scripted(script: Callable[[Peer], None], *, buffer_bytes: int = 0) -> Iterator[Server]:
    """A server that plays ``script`` to its first client; what goes wrong in it fails the test.

    ``buffer_bytes`` bounds what the kernel takes in for a script that does not read.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as thread:
        listener.settimeout(SECONDS_MAX)
        if buffer_bytes:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        server = Server(port=listener.getsockname()[1], given_up=threading.Event())

        def play() -> None:
            connection, _ = listener.accept()
            with connection:
                if not server.given_up.is_set():
                    connection.settimeout(SECONDS_MAX)
                    server.peers.append(Peer(connection, server.given_up))
                    script(server.peers[0])

        playing = thread.submit(play)
        try:
            yield server
        finally:
            server.client_has_given_up()
            if not server.peers:
                # Nobody came, and accept() wakes up for nothing else.
                with socket.socket() as nobody:
                    nobody.connect(("127.0.0.1", server.port))
        playing.result(SECONDS_MAX)
