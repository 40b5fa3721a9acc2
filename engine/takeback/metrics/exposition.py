"""Serves a process's metrics over HTTP: on this machine alone, unless it is told otherwise.

In threads of their own, which end with the process. Nothing but numbers can be fetched, and nothing
is changed by it.
"""

from __future__ import annotations

import errno
import socket
import socketserver
import threading
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from takeback.log import logger
from takeback.metrics.collector import Collector, Watched
from takeback.model.errors import InvalidSettings
from takeback.settings import PORT_MAX, listening

IDLE_SECONDS_MAX = 10.0
"""A connection over which nothing is asked for so long is closed."""


class Exposition(AbstractContextManager["Exposition"]):
    """Metrics that are served at ``port`` until they are closed."""

    def __init__(self, server: _Server) -> None:
        self.port = server.server_port
        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever, name="takeback-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Nobody is answered any more."""
        self._server.shutdown()
        self._server.server_close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def expose(where: str, watched: Watched, *, ports: int = 1) -> Exposition:
    """Serves the metrics of ``watched`` at ``where``, or at the first free port of so many from
    there: processes that are started alike take one each. Raises InvalidSettings.
    """
    host, first = _address(where)
    registry = CollectorRegistry()
    registry.register(Collector(watched))
    ProcessCollector(registry=registry)
    app = make_wsgi_app(registry)
    kind = _Server6 if ":" in host else _Server
    last = min(first + ports, PORT_MAX + 1)
    for port in range(first, last):
        try:
            server = make_server(host, port, app, server_class=kind, handler_class=_Handler)
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                raise InvalidSettings(_refused(where, problem.strerror)) from problem
            continue
        logger.info("metrics_served", host=host, port=port, process=watched.process)
        return Exposition(server)
    said = "its port is taken" if ports == 1 else f"the ports {first} to {last - 1} are taken"
    raise InvalidSettings(_refused(where, said))


def _address(where: str) -> tuple[str, int]:
    try:
        return listening(where)
    except ValueError as problem:
        raise InvalidSettings(f"metrics: {problem}; expected 127.0.0.1:9464, or 9464") from problem


def _refused(where: str, reason: object) -> str:
    return (
        f"metrics can't be served at {where!r}: {reason}; expected an address of this machine "
        "with a port that is free: name another with --metrics or TAKEBACK_METRICS"
    )


class _Server(ThreadingWSGIServer):
    """A thread for each fetch. What goes wrong with one is a line in the log."""

    def server_bind(self) -> None:
        """Without asking a name server what this machine is called."""
        socketserver.TCPServer.server_bind(self)
        host, self.server_port = self.server_address[:2]
        self.server_name = str(host)
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever fetches may hang up at any time."""
        logger.info("fetch_broken_off")


class _Server6(_Server):
    """The same, where the address is one of the newer kind."""

    address_family: int = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    """Says nothing of fetches that went well."""

    def setup(self) -> None:
        """Bounds how long it is waited for."""
        self.request.settimeout(IDLE_SECONDS_MAX)
        super().setup()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
