"""The hash chain of one intent's events, over the very bytes that the database stores.

    hash(n) = SHA-256( domain ‖ hash(n-1) ‖ tenant ‖ intent ‖ version ‖ position
                       ‖ kind ‖ schema ‖ instant ‖ payload )

Whatever has no fixed size carries its length before it, so no two different events give the same
bytes; the payload comes last and needs none. Integers are big-endian two's complement, as
Postgres' int4send and int8send write them: the trigger that appends and the code that verifies
must agree on every byte. The hash before the first is 32 zero bytes.
"""

from __future__ import annotations

from hashlib import sha256
from uuid import UUID

HASH_BYTES = 32
SALT_BYTES = 32
GENESIS = bytes(HASH_BYTES)

# A hash of this kind can't be taken for one of another: seals and later formats have other names.
_DOMAIN = b"takeback.event.1\x00"


def chain_hash(
    *,
    previous: bytes,
    tenant: str,
    intent_id: UUID,
    version: int,
    position: int,
    kind: str,
    schema: int,
    at_us: int,
    payload: str,
) -> bytes:
    """The hash of one event: of its fields and, through ``previous``, of all before it.

    ``previous`` has 32 bytes, GENESIS for version 1. ``at_us`` counts microseconds from the epoch,
    ``payload`` is the stored text. Raises ValueError for a ``previous`` of another length and
    OverflowError for a number that its Postgres type can't hold.

    >>> chain_hash(
    ...     previous=GENESIS,
    ...     tenant="default",
    ...     intent_id=UUID("01890a5d-ac96-774b-bcce-b302099a8057"),
    ...     version=1,
    ...     position=1,
    ...     kind="intent.due",
    ...     schema=1,
    ...     at_us=0,
    ...     payload="{}",
    ... ).hex()
    '45afc532b9d6c79fb1859f68275f5678bcca54a8852c0eb38ce3266e559a132e'
    """
    if len(previous) != HASH_BYTES:
        raise ValueError(f"expected a hash of {HASH_BYTES} bytes, found {len(previous)}")
    return sha256(
        b"".join(
            (
                _DOMAIN,
                previous,
                _sized(tenant),
                intent_id.bytes,
                _int4(version),
                _int8(position),
                _sized(kind),
                _int4(schema),
                _int8(at_us),
                payload.encode(),
            )
        )
    ).digest()


def body_digest(salt: bytes, body: str) -> str:
    """What an event says of a body beside the log: hex SHA-256 of ``salt`` and the body's text.

    Erasing body and salt leaves a digest that nobody can guess back. Raises ValueError for a salt
    that has not 32 bytes.

    >>> body_digest(bytes(32), '{"to":"ann@example.com"}')
    '85d7cfa450bbcb9db99d164068538b45743a8eb7590a84ae4e6607c921e92c3c'
    """
    if len(salt) != SALT_BYTES:
        raise ValueError(f"expected a salt of {SALT_BYTES} bytes, found {len(salt)}")
    return sha256(salt + body.encode()).hexdigest()


def _sized(text: str) -> bytes:
    """
    >>> _sized("né")
    b'\\x00\\x00\\x00\\x03n\\xc3\\xa9'
    """
    encoded = text.encode()
    return _int4(len(encoded)) + encoded


def _int4(number: int) -> bytes:
    """
    >>> _int4(1), _int4(-1)
    (b'\\x00\\x00\\x00\\x01', b'\\xff\\xff\\xff\\xff')
    """
    return number.to_bytes(4, "big", signed=True)


def _int8(number: int) -> bytes:
    """
    >>> _int8(258)
    b'\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x02'
    """
    return number.to_bytes(8, "big", signed=True)
