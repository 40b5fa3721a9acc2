"""Calling a face of a handler, whether it is sync or async, and reading its answer."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from traceback import clear_frames
from typing import Any

from sqlalchemy.util.concurrency import await_only, in_greenlet

from takeback.log import logger
from takeback.model.errors import Conflict, HandlerError, RetryTransaction
from takeback.model.handler import Face, Found, Group, Performed


def call_face(face: Face, *arguments: Any) -> Any:
    """What ``face`` answers; an async one is run to its end first.

    A process that the face has forked, and that comes back here, ends at once: it would go on as
    another we, with our connections and our claims.
    """
    before = len(_forks)
    try:
        return _call_face(face, *arguments)
    finally:
        if len(_forks) != before:
            os._exit(0)


_forks: list[None] = []
"""The forks that have led to this process: it costs nothing to look at them, unlike its number."""

os.register_at_fork(after_in_child=partial(_forks.append, None))


def _call_face(face: Face, *arguments: Any) -> Any:
    answer = face(*arguments)
    if not inspect.isawaitable(answer):
        return answer
    coroutine = answer if inspect.iscoroutine(answer) else _awaited(answer)
    if in_greenlet():
        return _run_inside(coroutine)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    return _run_beside(coroutine)


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
    except (HandlerError, Conflict, RetryTransaction):
        raise
    except MemoryError as problem:
        # Its frames hold what it has eaten: whoever writes this down needs some of that.
        clear_frames(problem.__traceback__)
        return Broke(problem)
    except Exception as problem:
        return Broke(problem)


def _run_inside(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """An AsyncSession's loop waits for us, and its session is a plain one only in this greenlet.

    So the coroutine is run here, step by step, and the loop is handed what it waits for.
    """
    step = partial(coroutine.send, None)
    while True:
        try:
            waited_for = step()
        except StopIteration as end:
            return end.value
        step = partial(coroutine.send, None)
        try:
            await_only(_until_done(waited_for))
        except asyncio.CancelledError as problem:
            step = partial(coroutine.throw, problem)


async def _until_done(waited_for: asyncio.Future[Any] | None) -> None:
    """Waits as a task does: who cancels it cancels what it waits for, and that may take a while.

    What became of the future, its coroutine asks for itself. None gives way once.
    """
    if waited_for is None:
        await asyncio.sleep(0)
        return
    while not waited_for.done():
        try:
            await asyncio.wait([waited_for])
        except asyncio.CancelledError:
            waited_for.cancel()


def _run_beside(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """A loop runs in this thread already, so the coroutine gets one in a thread of its own."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="takeback-face") as thread:
        return thread.submit(asyncio.run, coroutine).result()


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def performed(answer: Any) -> Performed:
    """A face's answer as ``Performed``; a plain value is a result.

    >>> performed(7).result
    7
    """
    if isinstance(answer, Performed):
        return answer
    return Performed(result=answer)


def matches_of(answer: Any) -> Found:
    """A read's answer as ``Found``, in JSON; a plain list is every match there is.

    >>> matches_of([{"id": 7}, "b"]).matches
    [{'id': 7}, {'result': 'b'}]
    """
    if not isinstance(answer, Found):
        several = isinstance(answer, Sequence) and not isinstance(answer, str | bytes)
        some = answer if several else [] if answer is None else [answer]
        answer = Found(
            matches=[one if isinstance(one, Mapping) else {"result": one} for one in some]
        )
    count = answer.matches_count
    return Found(
        matches=_spoken([dict(match) for match in answer.matches]),
        more_matches_exist=bool(answer.more_matches_exist),
        summary=None if answer.summary is None else str(answer.summary),
        matches_count=None if count is None else max(int(count), len(answer.matches)),
        totals=_spoken(dict(answer.totals)),
        groups=[
            Group(label=str(one.label), count=int(one.count), totals=_spoken(dict(one.totals)))
            for one in answer.groups
        ],
        group_field=answer.group_field,
        not_searched=[str(name) for name in answer.not_searched],
        result=_kept(answer.result),
    )


def _kept(result: Any) -> Any:
    """The result for the full answer; one that JSON can't hold is left out of it."""
    if result is None or isinstance(result, str):
        return result
    spoken = try_face(_spoken, result)
    if isinstance(spoken, Broke):
        logger.warning("result_not_serialisable", exc_info=spoken.problem)
        return None
    return spoken


def _spoken(value: Any) -> Any:
    """The value as JSON has it, in text that can be encoded whatever it was."""
    text = json.dumps(value, default=str, allow_nan=False, ensure_ascii=False)
    return json.loads(_LONE_SURROGATE.sub(lambda found: f"\\\\u{ord(found.group()):04x}", text))


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
