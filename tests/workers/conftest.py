"""Brokers of our own, one of each kind a process of the suite, and a yard for each test."""

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import services
from tests.workers.server import RabbitMQ, Redis, Server
from tests.workers.yard import Yard, open_yard


@pytest.fixture(scope="session")
def server_directory() -> Iterator[Path]:
    """Where brokers keep their files: with a short path, and ours alone."""
    directory = Path(tempfile.mkdtemp(prefix="tb-mq-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def redis_server(server_directory: Path) -> Iterator[Server]:
    services.require("redis")
    yield from running(Redis(server_directory / "redis"))


@pytest.fixture(scope="session")
def rabbitmq_server(server_directory: Path) -> Iterator[Server]:
    services.require("rabbitmq")
    yield from running(RabbitMQ(server_directory / "rabbitmq"))


def running(server: Server) -> Iterator[Server]:
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(params=["redis", "rabbitmq"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each kind of broker in turn; a test that has stopped it leaves it to be started again."""
    found: Server = request.getfixturevalue(f"{request.param}_server")
    if found.child is None:
        found.start()
    return found


@pytest.fixture
def yard(database_url: str, server: Server, tmp_path: Path) -> Iterator[Yard]:
    """A yard with nobody in it yet; its tenant's queues are its own."""
    with open_yard(database_url, server, tmp_path, f"yard-{uuid.uuid4().hex[:8]}") as yard:
        yield yard
