"""A line to the database that can be down, dead or sound, as often as a test likes.

with line(database_url) as wire:
    office = Office(wire.url, world)
    wire.be(State.DOWN)         # connections are reset, new ones refused
    wire.be(State.DEAD)         # connections stay and are taken, and nothing is passed on
    wire.be(State.SOUND)
"""

from __future__ import annotations

import socket
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum

import psycopg

DEAD_LOOK_SECONDS = 0.02
CHUNK_BYTES = 65536


class State(Enum):
    """How the line is."""

    SOUND = "everything is passed on"
    DOWN = "nobody listens, and who was connected is not any more"
    DEAD = "connections are there and new ones are taken, and nothing is passed on"


class Line:
    """Listens on one port of its own for as long as it is not down."""

    def __init__(self, family: int, address: tuple[str, int] | str) -> None:
        self._target = (family, address)
        self._state = State.SOUND
        self._ends: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._listener = self._listen(0)
        self.port: int = self._listener.getsockname()[1]

    def be(self, state: State) -> None:
        """From now on the line is like that; what was said while it was dead arrives late."""
        before, self._state = self._state, state
        if state is State.DOWN:
            self._reset()
        elif before is State.DOWN:
            self._listener = self._listen(self.port)

    def close(self) -> None:
        """Down for good, and every thread at its end."""
        self.be(State.DOWN)
        for thread in self._threads:
            thread.join(30)

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        self._start(self._accept, listener)
        return listener

    def _reset(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            ends, self._ends = self._ends, set()
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self._start(self._join, client)

    def _join(self, client: socket.socket) -> None:
        self._wait_while_dead()
        family, address = self._target
        server = socket.socket(family)
        with self._lock:
            self._ends |= {client, server}
        if self._state is State.DOWN:
            self._end(client, server)
            return
        try:
            server.connect(address)
        except OSError:
            self._end(client, server)
            return
        self._start(self._pass_on, client, server)
        self._pass_on(server, client)

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while said := source.recv(CHUNK_BYTES):
                self._wait_while_dead()
                sink.sendall(said)
        self._end(source, sink)

    def _end(self, *ends: socket.socket) -> None:
        with self._lock:
            self._ends -= set(ends)
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _wait_while_dead(self) -> None:
        pause = threading.Event()
        while self._state is State.DEAD:
            pause.wait(DEAD_LOOK_SECONDS)


Target = tuple[int, tuple[str, int] | str]
"""A family of sockets, and an address of it."""


def server_of(url: str) -> tuple[Target, str]:
    """Where the server of ``url`` listens, and a URL of its database at any other ``{port}``."""
    with psycopg.connect(url) as connection:
        info = connection.info
        name, user, host, port = info.dbname, info.user, info.host, info.port
    target: Target = (
        (socket.AF_UNIX, f"{host}/.s.PGSQL.{port}")
        if host.startswith("/")
        else (socket.AF_INET, (host, port))
    )
    at_port = f"postgresql://{urllib.parse.quote(user)}@127.0.0.1:{{port}}/{name}?sslmode=disable"
    return target, at_port


@contextmanager
def line(url: str) -> Iterator[tuple[Line, str]]:
    """A line to the server of ``url``, and the URL that leads through it."""
    (family, address), at_port = server_of(url)
    wire = Line(family, address)
    try:
        yield wire, at_port.format(port=wire.port)
    finally:
        wire.close()
