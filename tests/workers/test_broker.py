"""A broker as we use it: what is sent arrives, what is strange is dropped, who is away is said."""

import uuid
from collections.abc import Iterator

import pytest
from dramatiq.middleware import Retries

from takeback.declare import Priority
from takeback.model.errors import BrokerUnavailable
from takeback_workers.broker import Post, open_broker, queue_lengths
from takeback_workers.wake_up import QUEUES, named_by, queue_of
from tests.workers.server import RabbitMQ, Server, free_port


@pytest.fixture
def tenant() -> str:
    """One with queues of its own."""
    return f"post-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def post(server: Server, tenant: str) -> Iterator[Post]:
    post = Post(server.url, tenant)
    yield post
    post.close()


def received(server: Server, queue: str, count: int) -> list[object]:
    """What the messages of a queue name, taken and acknowledged one after the other."""
    broker = open_broker(server.url)
    broker.declare_queue(queue)
    consumer = broker.consume(queue, prefetch=10, timeout=100)
    found: list[object] = []
    for _ in range(300):
        message = next(consumer)
        if message is not None:
            found.append(named_by(message.args))
            consumer.ack(message)
        if len(found) == count:
            break
    consumer.close()
    broker.close()
    return found


def test_a_wake_up_stands_in_the_queue_of_its_priority_until_it_is_taken(server, post, tenant):
    ids = [uuid.UUID(int=n) for n in range(1, 4)]
    post.send([(ids[0], Priority.HIGH)])
    post.send([(ids[1], Priority.LOW)])
    post.send([(ids[2], Priority.LOW)])
    assert post.lengths() == {Priority.HIGH: 1, Priority.NORMAL: 0, Priority.LOW: 2}
    assert received(server, queue_of(tenant, Priority.LOW), 2) == [
        (tenant, ids[1]),
        (tenant, ids[2]),
    ]
    assert post.lengths() == {Priority.HIGH: 1, Priority.NORMAL: 0, Priority.LOW: 0}


def test_the_queues_of_nobody_are_empty_and_asking_makes_none(server):
    for _ in range(2):
        assert set(queue_lengths(server.url, f"nobody-{uuid.uuid4().hex}").values()) == {0}


def test_what_is_strange_is_dropped_and_what_comes_behind_it_arrives(server, post, tenant):
    queue = queue_of(tenant, Priority.NORMAL)
    first, last = uuid.UUID(int=1), uuid.UUID(int=2)
    post.send([(first, Priority.NORMAL)])
    for _ in range(25):
        server.put(queue, b'{"args": 7')
        server.put(queue, b'{"queue_name": "q", "actor_name": "a", "args": [], "options": null}')
    post.send([(last, Priority.NORMAL)])
    assert received(server, queue, 2) == [(tenant, first), (tenant, last)]
    assert server.in_hand(queue) == 0
    assert post.lengths()[Priority.NORMAL] == 0


def test_a_broker_repeats_nothing_of_its_own_accord_and_delays_nothing(server):
    """Retries are the ledger's, and so is the time."""
    broker = open_broker(server.url)
    broker.declare_queue("takeback.some.low")
    assert [type(one) for one in broker.middleware] == []
    assert Retries not in map(type, broker.middleware)
    assert broker.get_declared_delay_queues() == set()
    broker.close()


def test_a_queue_that_is_deleted_is_there_again_with_the_next_wake_up(server, post, tenant):
    post.send([(uuid.UUID(int=1), Priority.NORMAL)])
    server.wipe(tenant)
    assert post.lengths()[Priority.NORMAL] == 0
    post.send([(uuid.UUID(int=2), Priority.NORMAL)])
    assert post.lengths()[Priority.NORMAL] == 1


@pytest.mark.parametrize("scheme", ["redis", "rediss", "amqp", "amqps"])
def test_a_broker_that_is_not_there_is_unavailable_and_not_waited_for(scheme: str):
    post = Post(f"{scheme}://127.0.0.1:{free_port()}/0", "default")
    with pytest.raises(BrokerUnavailable) as caught:
        post.lengths()
    assert caught.value.code == "broker_unavailable" and caught.value.__cause__ is not None
    with pytest.raises(BrokerUnavailable):
        post.send([(uuid.UUID(int=1), Priority.HIGH)])
    post.close()


def test_a_broker_that_refuses_the_password_is_unavailable(server, tenant):
    if isinstance(server, RabbitMQ):
        url = server.url.replace("guest:guest@", "guest:wrong@")
    else:
        url = server.url.replace("redis://", "redis://nobody:wrong@")
    with pytest.raises(BrokerUnavailable):
        queue_lengths(url, tenant)
    with pytest.raises(BrokerUnavailable):
        queue_lengths(url.replace(":wrong@", "@"), tenant)


def test_tenants_have_queues_of_their_own_whatever_they_are_called():
    names = ["shop", "Shop", "shop.high", "t-1", "Ünder & Söhne", "x" * 100, "a/b", "*"]
    queues = {queue_of(name, one) for name in names for one in QUEUES}
    assert len(queues) == len(names) * len(QUEUES)
    assert all(len(queue) < 100 and queue.isascii() for queue in queues)
