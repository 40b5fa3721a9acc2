"""The broker that a URL names, Redis or RabbitMQ, with what we want of dramatiq and nothing else.

No retries (the ledger has them), no delays (the ledger has the time), no exporter that opens a
port. Whatever stands in a queue and is no wake-up is said in the log and dropped: it neither breaks
a consumer nor comes again. Every wait for a server is bounded.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from uuid import UUID

import pika
import redis
from dramatiq import Message
from dramatiq.broker import Consumer, MessageProxy
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.errors import BrokerError, DecodeError
from dramatiq.middleware import Middleware
from pika.exceptions import AMQPError, ChannelClosedByBroker

from takeback.declare import Priority
from takeback.log import logger
from takeback.model.errors import BrokerUnavailable
from takeback_workers.wake_up import NAMESPACE, QUEUES, is_wake_up, queue_of, wake_up

NO_BROKER = (
    "broker_url is not set: expected redis://host:port/0 or amqp://user@host:port/ in "
    "TAKEBACK_BROKER_URL; without a broker run `takeback worker`"
)

CONNECT_SECONDS_MAX = 2.0
ANSWER_SECONDS_MAX = 5.0
HEARTBEAT_SECONDS = 30
POLL_MS_MAX = 200
"""How long a wake-up may lie in an idle Redis: its consumers poll, ever more seldom up to this."""

SHOWN_MAX = 200

_UNREADABLE = (DecodeError, AttributeError, LookupError, TypeError, ValueError)
"""What a message does to a consumer that is no message, or one of other types than dramatiq's."""


Dropped = Callable[[str], object]
"""Is told the queue of each message that was dropped, since it is no wake-up."""


def open_broker(
    url: str, middleware: Sequence[Middleware] = (), *, dropped: Dropped = str
) -> _Redis | _Rabbit:
    """The broker at ``url``; nothing is connected before it is used."""
    if urllib.parse.urlsplit(url).scheme.startswith("redis"):
        return _Redis(url, middleware, dropped)
    return _Rabbit(url, middleware, dropped)


class Post:
    """Where the wake-ups of ``tenant`` are sent. Every method raises BrokerUnavailable."""

    def __init__(self, url: str, tenant: str) -> None:
        self._url = url
        self._tenant = tenant
        self._broker = open_broker(url)

    def send(self, wanted: Sequence[tuple[UUID, Priority]]) -> None:
        """Wakes somebody for each; has returned once the broker has all of them."""
        queues = {queue_of(self._tenant, priority) for _, priority in wanted}
        with translated():
            self._broker.prepare(queues)
            for intent_id, priority in wanted:
                self._broker.enqueue(wake_up(self._tenant, intent_id, priority))
            self._broker.confirm(queues)

    def lengths(self) -> Mapping[Priority, int]:
        """How many wake-ups wait in each queue."""
        return queue_lengths(self._url, self._tenant)

    def close(self) -> None:
        """Gives the connections back."""
        with suppress(BrokerUnavailable), translated():
            self._broker.close()


def queue_lengths(url: str, tenant: str) -> Mapping[Priority, int]:
    """How many wake-ups wait in each queue of ``tenant``. Raises BrokerUnavailable."""
    with translated():
        if urllib.parse.urlsplit(url).scheme.startswith("redis"):
            with _client(url) as client:
                return {
                    one: int(client.llen(f"{NAMESPACE}:{queue_of(tenant, one)}")) for one in QUEUES
                }
        connection = pika.BlockingConnection(_parameters(url))
        try:
            return {one: _length(connection, queue_of(tenant, one)) for one in QUEUES}
        finally:
            connection.close()


@contextmanager
def translated() -> Iterator[None]:
    """What goes wrong between us and a broker is raised as BrokerUnavailable."""
    try:
        yield
    except (redis.RedisError, AMQPError, BrokerError, OSError) as problem:
        raise BrokerUnavailable("the broker can't be reached, or went away") from _first(problem)


def _first(problem: BaseException) -> BaseException:
    """What went wrong at first: pika hands it on inside of another that says nothing itself.

    >>> _first(AMQPError(ConnectionRefusedError("Connection refused")))
    ConnectionRefusedError('Connection refused')
    """
    inside = getattr(problem, "exception", problem.args[0] if problem.args else None)
    return _first(inside) if isinstance(inside, BaseException) else problem


class _Redis(RedisBroker):
    """Redis, under a namespace of ours, with consumers that nothing breaks."""

    def __init__(self, url: str, middleware: Sequence[Middleware], dropped: Dropped) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            client=_client(url), middleware=list(middleware), namespace=NAMESPACE
        )
        self._dropped = dropped

    def prepare(self, queues: Collection[str]) -> None:
        """Nothing to be done: a queue is there with its first message."""

    def confirm(self, queues: Collection[str]) -> None:
        """Nothing to be done: each message was answered."""

    def get_declared_delay_queues(self) -> set[str]:
        """None: nobody polls for what nobody delays."""
        return set()

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Consumer:
        """A consumer of ``queue_name`` that hands on wake-ups alone."""
        inner = super().consume(queue_name, prefetch, min(timeout, POLL_MS_MAX))
        return _Guard(inner, queue_name, _is_kept_wake_up, self._forget, self._dropped)

    def _forget(self, queue: str, message: MessageProxy | None) -> None:
        """Takes whatever is no wake-up out of what this process has in hand.

        By what Redis holds, since the id that it is kept under can't be read out of it.
        """
        in_hand = f"{self.namespace}:__acks__.{self.broker_id}.{queue}"
        for key in self.client.smembers(in_hand):
            data = self.client.hget(f"{self.namespace}:{queue}.msgs", key)
            if not isinstance(data, bytes) or not _holds_wake_up(data, queue):
                self.do_ack(queue, key)


class _Rabbit(RabbitmqBroker):
    """RabbitMQ, with consumers that nothing breaks.

    It confirms batches and not each message, which would wait for its disk a hundred times.
    """

    def __init__(self, url: str, middleware: Sequence[Middleware], dropped: Dropped) -> None:
        super().__init__(middleware=list(middleware))
        self._dropped = dropped
        self.parameters = _parameters(url)

    def prepare(self, queues: Collection[str]) -> None:
        """Declares them anew: what is sent to one that somebody has deleted is lost in silence."""
        self.queues_pending.update(queues)
        for queue in sorted(queues):
            self.declare_queue(queue, ensure=True)

    def confirm(self, queues: Collection[str]) -> None:
        """Asks for them on the channel that has published: it answers in order."""
        for queue in sorted(queues):
            self.channel.queue_declare(queue, passive=True)

    def get_declared_delay_queues(self) -> set[str]:
        """None: nobody listens for what nobody delays."""
        return set()

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Consumer:
        """A consumer of ``queue_name`` that hands on wake-ups alone."""
        inner: Any = super().consume(queue_name, prefetch, timeout)
        inner.iterator = _telling(inner.iterator, partial(self._dropped, queue_name))

        def forget(queue: str, message: MessageProxy | None) -> None:
            # What can't be read at all is rejected already.
            if message is not None:
                inner.ack(message)

        return _Guard(inner, queue_name, is_wake_up, forget, self._dropped)


def _telling(messages: Iterable[Any], dropped: Callable[[], object]) -> Iterator[Any]:
    """The same; ``dropped`` is told of each that dramatiq, which says so to nobody, puts aside."""
    for method, properties, body in messages:
        if method is not None:
            try:
                Message.decode(body)
            except DecodeError:
                dropped()
            except _UNREADABLE:
                pass  # it is handed on, and dropped by the guard
        yield method, properties, body


class _Guard(Consumer):
    """Hands on what ``inner`` takes from the queue, if it is a wake-up; else has it forgotten."""

    def __init__(
        self,
        inner: Consumer,
        queue: str,
        is_ours: Callable[[Any, str], bool],
        forget: Callable[[str, MessageProxy | None], None],
        dropped: Dropped,
    ) -> None:
        self._inner = inner
        self._queue = queue
        self._is_ours = is_ours
        self._forget = forget
        self._dropped = dropped

    def __next__(self) -> MessageProxy | None:
        message: MessageProxy | None = None
        try:
            message = next(self._inner)
            if message is None or self._is_ours(message, self._queue):
                return message
            shown = repr(message)
        except _UNREADABLE as problem:
            shown = repr(getattr(problem, "data", problem))
        logger.error("no_wake_up", queue=self._queue, dropped=shown[:SHOWN_MAX])
        self._dropped(self._queue)
        self._forget(self._queue, message)
        return None

    def ack(self, message: MessageProxy) -> None:
        """It was handled."""
        self._inner.ack(message)

    def nack(self, message: MessageProxy) -> None:
        """It was refused."""
        self._inner.nack(message)

    def requeue(self, messages: Any) -> None:
        """They are for others."""
        self._inner.requeue(messages)

    def close(self) -> None:
        """Gives the connection back."""
        self._inner.close()


def _is_kept_wake_up(message: Any, queue: str) -> bool:
    """One that says, too, under which id Redis keeps it: by that it is acknowledged."""
    return is_wake_up(message, queue) and isinstance(message.options.get("redis_message_id"), str)


def _holds_wake_up(data: bytes, queue: str) -> bool:
    try:
        return _is_kept_wake_up(Message.decode(data), queue)
    except _UNREADABLE:
        return False


def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=CONNECT_SECONDS_MAX,
        socket_timeout=ANSWER_SECONDS_MAX,
        health_check_interval=HEARTBEAT_SECONDS,
    )


def _parameters(url: str) -> list[pika.URLParameters]:
    """One for each server that the URL names, with semicolons between them."""
    found = []
    for one in url.split(";"):
        parameters = pika.URLParameters(_with_password(one))
        parameters.connection_attempts = 1
        parameters.socket_timeout = CONNECT_SECONDS_MAX
        parameters.stack_timeout = ANSWER_SECONDS_MAX
        parameters.blocked_connection_timeout = ANSWER_SECONDS_MAX
        parameters.heartbeat = HEARTBEAT_SECONDS
        found.append(parameters)
    return found


def _with_password(url: str) -> str:
    """The URL, where it names a user, with a password too: pika breaks on a user without one.

    >>> _with_password("amqp://dana@mq:5672/shop"), _with_password("amqp://mq")
    ('amqp://dana:@mq:5672/shop', 'amqp://mq')
    """
    scheme, _, rest = url.partition("://")
    user, at, address = rest.rpartition("@")
    return f"{scheme}://{user}:@{address}" if at and ":" not in user else url


def _length(connection: Any, queue: str) -> int:
    channel = connection.channel()
    try:
        return int(channel.queue_declare(queue, passive=True).method.message_count)
    except ChannelClosedByBroker:
        return 0  # nobody has declared it: nothing waits there
    finally:
        if channel.is_open:
            channel.close()
