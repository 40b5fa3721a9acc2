"""The stored form of what a handler answered or refused with: whatever that was, it can be stored.

A result that JSON can't hold is left out, and the body says so: what has happened still settles.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from takeback.client.face import Broke, try_face
from takeback.log import logger
from takeback.model.handler import Affected, Performed

COUNT_MAX = 2**63 - 1


def outcome_body(done: Performed, extra: dict[str, Any] | None = None) -> str:
    """The body of what a face did; ``extra`` is said beside it.

    >>> outcome_body(Performed(result=0))
    '{"result":0,"affected":[],"affected_count":0,"summary":null,"leaves":[]}'
    >>> outcome_body(Performed(affected_by_kind={"order": 2})).partition(',"summary"')[2]
    ':null,"leaves":[],"affected_by_kind":{"order":2}}'
    >>> outcome_body(Performed(result={1j})).partition(',"summary"')[2]
    ':null,"leaves":[],"result_not_serialisable":true}'
    """
    described = try_face(_described, done)
    if isinstance(described, Broke):
        logger.error("answer_not_readable", exc_info=described.problem)
        described = _described(Performed(affected_count=count_of(done)))
    document = {"result": done.result, **described, **(extra or {})}
    text = try_face(_dump, document)
    if isinstance(text, Broke):
        logger.warning("result_not_serialisable", exc_info=text.problem)
        text = _dump(document | {"result": None, "result_not_serialisable": True})
    return str(text)


def refusal_body(
    code: str,
    message: object,
    alternatives: Sequence[Any],
    extra: dict[str, Any] | None = None,
) -> str:
    """The body of a refusal; ``extra`` is said beside it.

    >>> refusal_body("provider_rejected", "over the ceiling", [{"amount": 5}])
    '{"code":"provider_rejected","message":"over the ceiling","alternatives":[{"amount":5}]}'
    """
    text = try_face(_refusal, code, message, alternatives, extra)
    if isinstance(text, Broke):
        logger.warning("alternatives_not_serialisable", exc_info=text.problem)
        text = _refusal(code, "it was refused", (), extra)
    return str(text)


def count_of(done: Performed) -> int:
    """How many things were affected in all.

    >>> count_of(Performed(affected_count=7)), count_of(Performed(affected_count=-1))
    (7, 0)
    """
    # Handlers are other people's code: the types say what it should be.
    count: Any = done.affected_count
    affected: Any = done.affected
    if isinstance(count, int) and 0 <= count <= COUNT_MAX:
        return int(count)
    return len(affected) if isinstance(affected, Sequence) else 0


def words(text: object) -> str:
    r"""What can be shown and stored of a text.

    >>> words("a\0b \ud800")
    'a\\u0000b \\ud800'
    """
    shown = str(text).encode("utf-8", "backslashreplace").decode()
    return shown.replace("\0", "\\u0000")


def _described(done: Performed) -> dict[str, Any]:
    kinds = {words(kind): int(n) for kind, n in (done.affected_by_kind or {}).items()}
    return {
        "affected": [_affected(one) for one in done.affected],
        "affected_count": count_of(done),
        "summary": None if done.summary is None else words(done.summary),
        "leaves": [words(one) for one in done.leaves],
        **({"affected_by_kind": kinds} if kinds else {}),
    }


def _affected(one: Affected) -> dict[str, str]:
    label = one.id if one.label is None else one.label
    return {"kind": words(one.kind), "id": words(one.id), "label": words(label)}


def _refusal(
    code: str, message: object, alternatives: Sequence[Any], extra: dict[str, Any] | None
) -> str:
    document = {"code": code, "message": words(message), "alternatives": list(alternatives)}
    return _dump({**document, **(extra or {})})


def _dump(document: dict[str, Any]) -> str:
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        # A lone surrogate has a form in JSON, and none in UTF-8.
        return json.dumps(document, separators=(",", ":"), allow_nan=False)
    return text
