"""A connected socket within a deadline, name look-up included."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Sequence

_AddressInfo = tuple[
    socket.AddressFamily,
    socket.SocketKind,
    int,
    str,
    tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes],
]


class Deadline:
    """An end of waiting, by this process's monotonic clock: it measures spans, it tells no time."""

    __slots__ = ("_ends",)

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def seconds_left(self) -> float:
        """What is left of it. Raises TimeoutError once nothing is."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time for this attempt is over")
        return left

    def sooner(self, seconds_max: float | None) -> Deadline:
        """This deadline, or one ``seconds_max`` from now when that is sooner."""
        left = self.seconds_left()
        return self if seconds_max is None or seconds_max >= left else Deadline(seconds_max)


def connect(host: str, port: int, deadline: Deadline) -> socket.socket:
    """A connection to the first address that answers; each gets its share of the time.

    Raises OSError: the last address's failure, or that of the look-up.
    """
    addresses = _look_up(host, port, deadline)
    failure = OSError(f"the host {host!r} has no address")
    for tried, (family, kind, protocol, _, address) in enumerate(addresses):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(deadline.seconds_left() / (len(addresses) - tried))
            connection.connect(address)
            # The final dot is a packet of its own; Nagle would hold it back for the body's ACK.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as exc:
            connection.close()
            failure = exc
        else:
            return connection
    raise failure


def _look_up(host: str, port: int, deadline: Deadline) -> Sequence[_AddressInfo]:
    """The addresses of ``host``. The resolver takes no deadline: late, it is left behind."""
    answers: queue.SimpleQueue[Sequence[_AddressInfo] | OSError] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            answers.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as exc:
            answers.put(exc)
        except UnicodeError:
            answers.put(OSError(f"{host!r} is no host name"))

    threading.Thread(target=look_up, name="smtp-look-up", daemon=True).start()
    try:
        answer = answers.get(timeout=deadline.seconds_left())
    except queue.Empty:
        raise TimeoutError(f"no answer from DNS about {host!r}") from None
    if isinstance(answer, OSError):
        raise answer
    return answer


def address_literal(connection: socket.socket) -> str:
    """This end's address, as EHLO takes it from a host without a name (RFC 5321 §4.1.3)."""
    address = connection.getsockname()[0]
    return f"[IPv6:{address}]" if connection.family is socket.AF_INET6 else f"[{address}]"
