"""What some tests need from the machine, and what happens where it is missing.

    address = services.require("redis")

skips the test with the reason, or fails it where TAKEBACK_REQUIRE names the service: a machine that
promises to have everything (CI) may not skip in silence.
"""

import os
import shutil
import socket
from collections.abc import Callable, Mapping

import pytest

REQUIRE_VARIABLE = "TAKEBACK_REQUIRE"
CONNECT_SECONDS = 1


class Missing(Exception):
    """The service is not there; the message says what was looked for."""


def server(port: int) -> str:
    """The address of a server on this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=CONNECT_SECONDS).close()
    except OSError as exc:
        raise Missing(f"nothing listens on 127.0.0.1:{port}") from exc
    return f"127.0.0.1:{port}"


def program(*names: str) -> str:
    """The path of a program, of the first of these that there is."""
    for path in map(shutil.which, names):
        if path is not None:
            return path
    raise Missing(f"no program {names[0]!r} on the PATH")


def rabbitmq() -> str:
    """RabbitMQ itself: the script on Debian's PATH turns everybody away but two users."""
    program("epmd")
    return program("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")


PROBES: Mapping[str, Callable[[], str]] = {
    # Brokers are started by whoever wants one, on free ports: tests kill and wipe them.
    "redis": lambda: program("redis-server", "valkey-server"),
    "rabbitmq": rabbitmq,
    "pgbouncer": lambda: program("pgbouncer", "/usr/sbin/pgbouncer"),
    "chromium": lambda: program("chromium"),
    "node": lambda: program("node"),
}


def required(environment: Mapping[str, str]) -> set[str]:
    """The services that must be there; a name that no test knows is a slip of the pen."""
    names = {name.strip() for name in environment.get(REQUIRE_VARIABLE, "").split(",")} - {""}
    if unknown := sorted(names - PROBES.keys()):
        raise ValueError(f"{REQUIRE_VARIABLE} names {unknown}; known are {sorted(PROBES)}")
    return names


def require(
    name: str,
    *,
    environment: Mapping[str, str] = os.environ,
    probes: Mapping[str, Callable[[], str]] = PROBES,
) -> str:
    """The service's address or path. Skips the running test, or fails it, where there is none."""
    try:
        return probes[name]()
    except Missing as exc:
        if name in required(environment):
            pytest.fail(f"{REQUIRE_VARIABLE} names {name}, but {exc}")
        pytest.skip(f"wants {name}: {exc}")
