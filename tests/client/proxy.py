"""A wire to the database that can be cut: at any moment, or just before or after a COMMIT.

What the client sends is read message by message, so that it is the COMMIT itself that is swallowed,
or its answer: the server has done it and the client never hears.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

HEADER = 5
COMMIT = b"COMMIT\0"


class Cut(Enum):
    """What happens to the next COMMIT."""

    BEFORE = "it never arrives"
    AFTER = "it is carried out, and its answer never comes back"
    REFUSED = "nothing: new connections are refused"


class Proxy:
    """Listens on a port of its own and passes everything on, until it is told otherwise."""

    def __init__(self, url: str) -> None:
        self._target = conninfo_to_dict(url)
        self._lock = threading.Lock()
        self._cuts: list[Cut] = []
        self._pipes: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._refusing = False
        self.commits = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._accepting = self._start(self._accept)
        user = quote(str(self._target.get("user") or ""))
        database = quote(str(self._target["dbname"]))
        port = self._listener.getsockname()[1]
        # Nothing is encrypted: the wire has to be able to read along.
        self.url = (
            f"postgresql://{user}@127.0.0.1:{port}/{database}?sslmode=disable&gssencmode=disable"
        )

    def cut(self, *cuts: Cut) -> None:
        """Lays down what happens to the next COMMITs, one after the other."""
        self._cuts.extend(cuts)

    def break_all(self) -> None:
        """Cuts every connection there is."""
        with self._lock:
            pipes, self._pipes = self._pipes, []
        for pipe in pipes:
            _close(pipe)

    def refuse(self) -> None:
        """Cuts every connection and lets nobody in any more."""
        self._refusing = True
        self.break_all()

    def let_in(self) -> None:
        """Ends ``refuse``."""
        self._refusing = False

    def close(self) -> None:
        """Ends it, and waits for its threads."""
        self.refuse()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def _start(self, work: Any, *given: Any) -> threading.Thread:
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                _close(client)
                continue
            server = self._connect()
            # A message is passed on at once: a driver sends several for one statement.
            for pipe in (client, server):
                if pipe.family is socket.AF_INET:
                    pipe.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._pipes += [client, server]
            hears = threading.Event()
            hears.set()
            self._start(self._pass_to_server, client, server, hears)
            self._start(self._pass_to_client, server, client, hears)

    def _connect(self) -> socket.socket:
        host = str(self._target.get("host") or "127.0.0.1")
        port = int(self._target.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _pass_to_server(
        self, client: socket.socket, server: socket.socket, hears: threading.Event
    ) -> None:
        with suppress(OSError):
            for message in _messages(client):
                cut = self._cut_for(message)
                if cut is Cut.BEFORE:
                    break
                if cut is Cut.AFTER:
                    # The answer is read, so the commit is done, and then nobody hears of it.
                    hears.clear()
                server.sendall(message)
        _close(client)
        _close(server)

    def _pass_to_client(
        self, server: socket.socket, client: socket.socket, hears: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if not hears.is_set():
                    break
                client.sendall(data)
        _close(server)
        _close(client)

    def _cut_for(self, message: bytes) -> Cut | None:
        if message[:1] != b"Q" or message[HEADER:] != COMMIT:
            return None
        self.commits += 1
        return self._cuts.pop(0) if self._cuts else None


def _messages(client: socket.socket) -> Iterator[bytes]:
    """The startup message, which has no type, and then each message whole."""
    length = int.from_bytes(head := _exactly(client, 4))
    yield head + _exactly(client, length - 4)
    while True:
        head = _exactly(client, HEADER)
        yield head + _exactly(client, int.from_bytes(head[1:]) - 4)


def _exactly(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = client.recv(count - len(data))
        if not more:
            raise OSError("the client has hung up")
        data += more
    return data


def _close(pipe: socket.socket) -> None:
    with suppress(OSError):
        pipe.shutdown(socket.SHUT_RDWR)
    pipe.close()


@contextmanager
def wire(url: str) -> Iterator[Proxy]:
    """A proxy for the length of a block."""
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.close()


def answers(url: str) -> bool:
    """Whether a connection can be made there."""
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
