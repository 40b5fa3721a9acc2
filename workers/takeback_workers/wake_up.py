"""The message that wakes a worker: which queue it stands in, and what it may hold.

It names an intent, by tenant and id, and nothing else: it is a hint, and the ledger is the truth. A
queue for each priority and tenant, so that what is urgent doesn't stand behind what isn't.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from dramatiq import Message

from takeback.declare import HIGH, LOW, NORMAL, Priority
from takeback.dispatch.work import Identity

NAMESPACE = "takeback"
"""What our keys and queues begin with: the broker may be somebody's who has others there."""

_LEGIBLE = re.compile(r"[A-Za-z0-9_-]{1,64}")


QUEUES: Mapping[Priority, str] = {HIGH: "high", NORMAL: "default", LOW: "low"}
"""A queue of its own each, the most urgent first; a worker takes from the first that has something.
"""


def queue_of(tenant: str, priority: Priority) -> str:
    """The name of the queue. A tenant that can't stand in one is told by a digest.

    >>> queue_of("default", HIGH)
    'takeback.default.high'
    >>> queue_of("Ünder & Söhne", LOW)
    'takeback.t-912eb4adf96d5f2c.low'
    """
    legible = tenant
    if not _LEGIBLE.fullmatch(tenant) or tenant.startswith("t-"):
        legible = f"t-{hashlib.sha256(tenant.encode()).hexdigest()[:16]}"
    return f"{NAMESPACE}.{legible}.{QUEUES[priority]}"


def word_of(queue: str) -> str:
    """Which of our queues it is, whatever tenant it is of.

    >>> word_of(queue_of("default", HIGH))
    'high'
    """
    return queue.rpartition(".")[2]


def actor_of(priority: Priority) -> str:
    """The name of the actor that a queue's messages are for."""
    return f"{NAMESPACE}_wake_{QUEUES[priority]}"


_ACTORS = [actor_of(priority) for priority in QUEUES]


def wake_up(tenant: str, intent_id: UUID, priority: Priority) -> Message[None]:
    """The message that wakes somebody for an intent of ``tenant``."""
    return Message(
        queue_name=queue_of(tenant, priority),
        actor_name=actor_of(priority),
        args=(tenant, str(intent_id)),
        kwargs={},
        options={},
    )


def named_by(arguments: object) -> Identity | None:
    """The intent that a message's arguments name; None when they name none.

    >>> named_by(("default", "01890a5d-ac96-774b-bcce-b302099a8057"))
    ('default', UUID('01890a5d-ac96-774b-bcce-b302099a8057'))
    >>> named_by(("default", "DROP TABLE")), named_by(("default", 7)), named_by([1, 2, 3])
    (None, None, None)
    """
    match arguments:
        case (str(tenant), str(text)):
            try:
                return tenant, UUID(text)
            except ValueError:
                return None
    return None


def is_wake_up(message: Any, queue: str) -> bool:
    """Whether a message is one that we may have put into ``queue``.

    Whatever else is there would break the consumer that takes it: an actor that nobody declared,
    another queue's name, options that are none, or a time until which it is kept in memory.
    """
    return (
        isinstance(message.message_id, str)
        and isinstance(message.options, Mapping)
        and "eta" not in message.options
        and message.queue_name == queue
        and message.actor_name in _ACTORS
        and isinstance(message.kwargs, Mapping)
        and not message.kwargs
        and named_by(message.args) is not None
    )
