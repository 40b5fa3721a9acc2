"""Whether a server answers on a socket: alive is what lets one in, whatever a pid file says.

The probe speaks the start of the Postgres protocol (version 3) itself: a driver would be a second
home for one, and all that is wanted is the server's first words.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

PORT = 5432  # only a part of the socket's name: the server listens on no network
USER = "postgres"  # "$user" leads the search path: never the name of a schema, such as ours
DATABASE = "postgres"
ANSWER_S = 2.0  # a healthy server lets one in within milliseconds
CLOSED_CLASSES = ("28", "3D")  # SQLSTATEs: who may come in, and no such database
_PROTOCOL = 196608  # 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The server lets clients in; ``version`` as it says itself, such as "18.6"."""

    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """Something listens but lets nobody in just now: it starts, stops, is full or hangs."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The server does not let us in, and will not: its role, database or rules were changed."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent:
    """Nothing listens."""


Answer = Ready | Busy | Closed | Silent


def socket_file(directory: Path) -> Path:
    """The socket that a server makes in ``directory``."""
    return directory / f".s.PGSQL.{PORT}"


def ask(directory: Path) -> Answer:
    """Connect as a client would, and leave again."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_S)
        try:
            connection.connect(str(socket_file(directory)))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            return Silent()
        except OSError as error:
            return Busy(reason=str(error))
        try:
            connection.sendall(_startup())
            return _listen(connection)
        except TimeoutError:
            return Busy(reason=f"no answer within {ANSWER_S:g} s")
        except OSError as error:
            return Busy(reason=str(error))


def describe(answer: Answer) -> str:
    """The answer in words, for a message.

    >>> describe(Busy(reason="it starts"))
    'listens but lets nobody in: it starts'
    """
    match answer:
        case Ready():
            return f"answers as Postgres {answer.version}"
        case Busy():
            return f"listens but lets nobody in: {answer.reason}"
        case Closed():
            return f"lets us in no more: {answer.reason}"
        case Silent():
            return "does not listen"
        case _:
            assert_never(answer)


def _startup() -> bytes:
    fields = ("user", USER, "database", DATABASE, "application_name", "takeback probe")
    body = struct.pack("!i", _PROTOCOL) + b"".join(f.encode() + b"\0" for f in fields) + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def _listen(connection: socket.socket) -> Answer:
    version = ""
    with connection.makefile("rb") as stream:
        while header := stream.read(5):
            if len(header) < 5:
                break
            kind, size = header[:1], struct.unpack("!i", header[1:])[0]
            body = stream.read(size - 4)
            if kind == b"S" and body.startswith(b"server_version\0"):
                version = body.split(b"\0")[1].decode().split()[0]
            elif kind == b"Z":
                connection.sendall(b"X" + struct.pack("!i", 4))
                return Ready(version=version)
            elif kind == b"E":
                return _refusal(body)
            elif kind == b"R" and body[:4] != b"\0\0\0\0":
                return Closed(reason="it asks for a password")
    return Busy(reason="it hung up")


def _refusal(body: bytes) -> Busy | Closed:
    r"""What an ErrorResponse means, by the SQLSTATE in its field C.

    >>> _refusal(b"SFATAL\0C57P03\0Mthe database system is starting up\0\0")
    Busy(reason='the database system is starting up')
    """
    fields = {f[:1]: f[1:].decode(errors="replace") for f in body.split(b"\0") if f}
    reason = fields.get(b"M", "an error")
    if fields.get(b"C", "")[:2] in CLOSED_CLASSES:
        return Closed(reason=reason)
    return Busy(reason=reason)
