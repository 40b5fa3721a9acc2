"""Brokers of the tests' own: a Redis or a RabbitMQ on free ports, that may be killed and wiped.

Each keeps its files in a folder of its own and listens on this machine alone. A RabbitMQ brings its
own port mapper, so that it neither finds another node nor leaves a daemon behind.
"""

import os
import signal
import socket
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pika
import redis

from takeback.model.errors import BrokerUnavailable
from takeback_workers.broker import queue_lengths
from takeback_workers.wake_up import QUEUES, queue_of
from tests import services

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Server(ABC):
    """A broker that is started, stopped and killed by a test; ``url`` stays the same."""

    name: str
    url: str

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.child: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> tuple[list[str], Mapping[str, str]]:
        """What is run, and what its environment has more than ours."""

    def start(self) -> None:
        """Returns when it answers."""
        command, more = self.command()
        with (self.directory / "out").open("ab") as out:
            self.child = subprocess.Popen(
                command,
                env={**os.environ, **more},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        eventually(self.answers, f"{self.name} answers: {self.directory / 'out'}")

    def answers(self) -> bool:
        """Whether it takes work."""
        try:
            queue_lengths(self.url, "nobody")
        except BrokerUnavailable:
            assert self.child is not None and self.child.poll() is None, self.said()
            return False
        return True

    def said(self) -> str:
        """What it wrote while it ran."""
        return (self.directory / "out").read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        """In order: what it keeps on disk it has written."""
        if self.child is not None:
            self.child.send_signal(signal.SIGTERM)
            self._wait()

    def kill(self) -> None:
        """At once, with all its children."""
        if self.child is not None:
            os.killpg(self.child.pid, signal.SIGKILL)
            self._wait()

    def _wait(self) -> None:
        assert self.child is not None
        try:
            self.child.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait(STOP_SECONDS_MAX)
            raise
        self.child = None

    def close(self) -> None:
        """Whatever is left of it ends."""
        self.kill()

    @abstractmethod
    def wipe(self, tenant: str) -> None:
        """Everything that waits in the queues of ``tenant`` is lost."""

    @abstractmethod
    def put(self, queue: str, data: bytes) -> None:
        """Puts something into a queue, as anybody might who can reach it."""

    @abstractmethod
    def in_hand(self, queue: str) -> int:
        """How many messages somebody has taken from the queue and not acknowledged."""


class Redis(Server):
    """Keeps nothing on disk: a restart is a wipe."""

    name = "redis"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        program = services.require("redis")
        bound = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.directory)]
        return [program, *bound, "--save", "", "--appendonly", "no"], {}

    def wipe(self, tenant: str) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.flushall()

    def put(self, queue: str, data: bytes) -> None:
        with redis.Redis.from_url(self.url) as client:
            name = f"stranger-{client.incr('strangers')}"
            client.hset(f"takeback:{queue}.msgs", name, data)
            client.rpush(f"takeback:{queue}", name)

    def in_hand(self, queue: str) -> int:
        with redis.Redis.from_url(self.url) as client:
            sets = client.keys(f"takeback:__acks__.*.{queue}")
            return sum(int(client.scard(one)) for one in sets)


class RabbitMQ(Server):
    """Durable queues: what is published survives a restart, and is lost by a wipe."""

    name = "rabbitmq"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port, self.dist_port, self.mapper_port = free_port(), free_port(), free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/"
        self.mapper: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self.mapper is None:
            self.mapper = subprocess.Popen(
                ["epmd", "-port", str(self.mapper_port), "-address", "127.0.0.1"],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        super().start()

    def command(self) -> tuple[list[str], Mapping[str, str]]:
        here = self.directory
        (here / "plugins").write_text("[].\n")
        (here / "rabbit.conf").write_text("log.file.level = warning\n")
        arguments = "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1"
        return [services.require("rabbitmq")], {
            "HOME": str(here),
            "ERL_CRASH_DUMP": str(here / "erl_crash.dump"),
            "ERL_EPMD_PORT": str(self.mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"takeback{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.dist_port),
            "RABBITMQ_MNESIA_BASE": str(here / "db"),
            "RABBITMQ_LOG_BASE": str(here / "log"),
            "RABBITMQ_CONF_ENV_FILE": str(here / "none"),
            "RABBITMQ_CONFIG_FILE": str(here / "rabbit.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(here / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(here / "plugins"),
            "RABBITMQ_PID_FILE": str(here / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": arguments,
        }

    def close(self) -> None:
        super().close()
        if self.mapper is not None:
            self.mapper.terminate()
            self.mapper.wait(STOP_SECONDS_MAX)
            self.mapper = None

    def wipe(self, tenant: str) -> None:
        queues = [queue_of(tenant, one) for one in QUEUES]
        self._on_channel(lambda channel: [channel.queue_delete(one) for one in queues])

    def put(self, queue: str, data: bytes) -> None:
        self._on_channel(lambda channel: channel.basic_publish("", queue, data))

    def in_hand(self, queue: str) -> int:
        """Whoever took them has let go: then what was not acknowledged waits again."""
        return 0

    def _on_channel(self, work: Callable[[Any], object]) -> None:
        connection = pika.BlockingConnection(pika.URLParameters(self.url))
        try:
            work(connection.channel())
        finally:
            connection.close()


def eventually(met: Callable[[], bool], what: str, seconds: float = START_SECONDS_MAX) -> None:
    """Returns when ``met``; another process has been set going that will bring it about."""
    pause = threading.Event()
    for _ in range(int(seconds * 50)):
        if met():
            return
        pause.wait(0.02)
    raise TimeoutError(f"it never came about that {what}")
