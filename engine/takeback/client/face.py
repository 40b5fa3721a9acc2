"""Calling a face of a handler, whether it is sync or async, and reading its answer."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sqlalchemy.util.concurrency import await_only, in_greenlet

from takeback.model.errors import TakebackError
from takeback.model.handler import Affected, Face, Found, Performed


def call_face(face: Face, *arguments: Any) -> Any:
    """What ``face`` answers; an async one is run to its end first."""
    answer = face(*arguments)
    if not inspect.iscoroutine(answer):
        return answer
    if in_greenlet():
        return await_only(answer)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(answer)
    return _run_beside(answer)


@dataclass(frozen=True, slots=True)
class Broke:
    """A face ended in an exception that says nothing about its effect."""

    problem: Exception


def try_face(face: Face, *arguments: Any) -> Any:
    """What ``face`` answers, or ``Broke``; what a handler raises to say something is passed on.

    The one place that catches everything: a handler is the tool author's code. A remote effect
    is in doubt then, a local one is rolled back.
    """
    try:
        return call_face(face, *arguments)
    except TakebackError:
        raise
    except Exception as problem:
        return Broke(problem)


def _run_beside(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """A loop runs in this thread already, so the coroutine gets one in a thread of its own."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="takeback-face") as thread:
        return thread.submit(asyncio.run, coroutine).result()


def performed(answer: Any) -> Performed:
    """A face's answer as ``Performed``; a plain value is a result.

    >>> performed(7).result
    7
    """
    if isinstance(answer, Performed):
        return answer
    return Performed(result=answer)


def outcome_body(done: Performed, extra: dict[str, Any] | None = None) -> str:
    """The stored form of what a handler answered. A result that JSON can't hold still settles:
    it is left out, and the body says so.

    >>> outcome_body(Performed(result=0))
    '{"result":0,"affected":[],"affected_count":0,"summary":null,"leaves":[]}'
    """
    document: dict[str, Any] = {
        "result": done.result,
        "affected": [_affected(one) for one in done.affected],
        "affected_count": count_of(done),
        "summary": done.summary,
        "leaves": list(done.leaves),
    } | (extra or {})
    try:
        return _dump(document)
    except (TypeError, ValueError, RecursionError):
        return _dump(document | {"result": None, "result_not_serialisable": True})


def count_of(done: Performed) -> int:
    """How many things were affected in all."""
    return len(done.affected) if done.affected_count is None else done.affected_count


def matches_of(answer: Any) -> Found:
    """A read's answer as ``Found``; a plain list is every match there is."""
    if isinstance(answer, Found):
        return answer
    if isinstance(answer, Sequence) and not isinstance(answer, str | bytes):
        return Found(matches=answer)
    return Found(matches=[] if answer is None else [{"result": answer}])


def _affected(one: Affected) -> dict[str, str]:
    return {"kind": one.kind, "id": one.id, "label": one.label or one.id}


def _dump(document: dict[str, Any]) -> str:
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # A lone surrogate or a NUL is valid JSON text that Postgres can't store.
    if "\\u0000" in text:
        raise ValueError("NUL in a result")
    text.encode("utf-8")
    return text
