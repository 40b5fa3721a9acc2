"""What makes two calls the same call: canonical bytes and the idempotency key.

The key is a hash over RFC 8785 canonical JSON of a document, never over joined strings, so that
("a|b", "c") and ("a", "b|c") differ:

    {"arguments": {chosen subset}, "repeat_of": ref | null, "scope": "forever" | "window"
     | {"run": run}, "tenant": ..., "tool": ..., "version": of the recipe}

No time is in it: a retry one second later, or across midnight, is the same call. The arguments are
in canonical form already (``model.canonical``). tests/model/golden/keys.json fixes the bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, NewType

import rfc8785

from takeback.declare import Key
from takeback.declare.argument import INTEGER_MAX
from takeback.declare.tool import ScopeKind
from takeback.model.errors import CallerError, InvalidCatalog

IdempotencyKey = NewType("IdempotencyKey", str)

# SHA-256 and HMAC-SHA-256 over the document above; a later form of it gets the next number.
_PLAIN = "k1:"
_KEYED = "k1h:"
_ORDERED = "o1:"
_ORDERED_KEYED = "o1h:"

# Where nothing but ASCII keys, text and whole numbers occurs, these are the bytes of RFC 8785, at
# a quarter of the time; a property test compares the two.
_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


def canonical_bytes(value: Any) -> bytes:
    """RFC 8785 canonical JSON of ``value``.

    Raises ValueError for what JSON can't say, and for integers beyond 2^53-1.

    >>> canonical_bytes({"b": 5, "a": ["é", None]})
    b'{"a":["\\xc3\\xa9",null],"b":5}'
    """
    if _is_plain(value):
        return _encode(value).encode()
    return rfc8785.dumps(value)


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        return bool(-INTEGER_MAX <= value <= INTEGER_MAX)
    if kind is dict:
        return all(type(key) is str and key.isascii() and _is_plain(value[key]) for key in value)
    if kind is list:
        return all(map(_is_plain, value))
    return False


def derive_key(
    *,
    tenant: str,
    tool: str,
    recipe: Key,
    arguments: Mapping[str, Any],
    run: str | None,
    repeat_of: str | None,
    secret: bytes | None = None,
) -> IdempotencyKey:
    """The key of a call whose canonical arguments are ``arguments``.

    ``run`` enters it only where the recipe's scope is a run. With ``secret`` the key is an HMAC, so
    that an erased value can't be guessed back from it.
    Raises CallerError when a run is needed and missing, InvalidCatalog when the recipe names a
    field that is no argument.

    >>> key = derive_key(tenant="t", tool="refund", recipe=Key(("charge",)),
    ...                  arguments={"charge": "ch_1", "note": "x"}, run=None, repeat_of=None)
    >>> key[:11], len(key)
    ('k1:06808658', 67)
    """
    document = canonical_bytes(
        {
            "arguments": _subset(tool, recipe, arguments),
            "repeat_of": repeat_of,
            "scope": _scope(tool, recipe, run),
            "tenant": tenant,
            "tool": tool,
            "version": recipe.version,
        }
    )
    if secret is not None:
        return IdempotencyKey(_KEYED + hmac.digest(secret, document, "sha256").hex())
    return IdempotencyKey(_PLAIN + hashlib.sha256(document).hexdigest())


def derive_ordering(*, tenant: str, among: str, value: Any, secret: bytes | None = None) -> str:
    """What stands for all calls ``among`` a connector's or a tool's that have this ``value``.

    >>> ordering = derive_ordering(tenant="t", among="stripe", value="C-1")
    >>> ordering[:11], len(ordering)
    ('o1:de3a5c58', 67)
    """
    document = canonical_bytes({"among": among, "ordering": value, "tenant": tenant})
    if secret is not None:
        return _ORDERED_KEYED + hmac.digest(secret, document, "sha256").hex()
    return _ORDERED + hashlib.sha256(document).hexdigest()


def _subset(tool: str, recipe: Key, arguments: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {name: arguments[name] for name in recipe.fields}
    except KeyError as missing:
        raise InvalidCatalog(
            f"row {tool!r}: key field {missing.args[0]!r} is no argument of it; "
            f"fix: name one of {', '.join(arguments)}"
        ) from None


def _scope(tool: str, recipe: Key, run: str | None) -> Any:
    if recipe.scope.kind is not ScopeKind.RUN:
        return recipe.scope.kind.value
    if not run:
        raise CallerError(
            f"tool {tool!r} is recorded once per run, and the call names no run; pass run=..."
        )
    return {"run": run}
