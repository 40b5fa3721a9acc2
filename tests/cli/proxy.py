"""A way to the database that can be cut, before or after the server has heard what was said."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.line import Target, server_of


class Proxy:
    """Passes bytes on, until it is cut; then every connection is gone, and no new one is taken.

    ``cut_before`` is asked about what a client says; ``cut_after`` about the same once the server
    has answered it, and the answer is lost.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.cut_before: Callable[[bytes], bool] = lambda said: False
        self.cut_after: Callable[[bytes], bool] = lambda said: False
        self.is_cut = threading.Event()
        self._start(self._accept)

    def cut(self) -> None:
        """Ends every connection and takes no more."""
        self.is_cut.set()
        for end in (self._listener, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def close(self) -> None:
        """Cut, and every thread at its end."""
        self.cut()
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.is_cut.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            family, address = self._target
            server = socket.socket(family)
            server.connect(address)
            self._ends += [client, server]
            lost = threading.Event()
            self._start(self._pass_on, client, server, lost, True)
            self._start(self._pass_on, server, client, lost, False)

    def _pass_on(
        self, source: socket.socket, sink: socket.socket, lost: threading.Event, hears: bool
    ) -> None:
        with suppress(OSError):
            while said := source.recv(65536):
                if (hears and self.cut_before(said)) or (not hears and lost.is_set()):
                    self.cut()
                if self.is_cut.is_set():
                    return
                if hears and self.cut_after(said):
                    lost.set()
                sink.sendall(said)
        # One side is gone, so the other is to know.
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(url: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy to the server of ``url``, and the URL that leads through it."""
    target, at_port = server_of(url)
    proxy = Proxy(target)
    try:
        yield proxy, at_port.format(port=proxy.port)
    finally:
        proxy.close()
