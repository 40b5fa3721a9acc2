"""What a row's effect must say, and which faces of its handler it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, assert_never

from takeback.declare import COMPENSATE, Blind, Keyed, Local, Lookup, Priority, Read, Remote, Tool
from takeback.declare.effect import IfOtherFails, OnForbidden
from takeback.model.handler import Handler

Problem = tuple[str, str]

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")

LONGEST = timedelta(days=36_525)
"""A century: what is longer leaves the calendar, or what a double counts in microseconds."""


RETRY_SECONDS_LONGEST = 86_400.0
"""Whoever wants to wait longer than a day for another attempt wants a person."""


def effect_problems(tool: Tool, handler: Handler | None) -> Iterator[Problem]:
    """What is wrong with the row's effect; faces are looked for where there is a handler."""
    effect: Any = tool.effect
    if not isinstance(effect, Read | Local | Remote):
        yield "its effect is none", "write effect=Read(...), Local(...) or Remote(...)"
        return
    known: Read | Local | Remote = effect
    match known:
        case Read(on_forbidden=said):
            if not isinstance(said, OnForbidden):
                yield (
                    "it doesn't say what becomes of what the caller may not see",
                    "write Read(on_forbidden=OMIT) for a search, =SAY_NO_ACCESS for one thing",
                )
        case Local():
            yield from _local(known)
            yield from _needs(handler, "restore", "a local effect is taken back by its handler")
        case Remote():
            yield from _remote(known)
            if known.reversal is COMPENSATE:
                yield from _needs(handler, "restore", "its reversal is COMPENSATE")
            yield from _lane(tool, known)
            if isinstance(known.upstream, Lookup):
                yield from _needs(handler, "find", "its upstream is LOOKUP")
        case _:
            assert_never(known)


def _local(effect: Local) -> Iterator[Problem]:
    if effect.retention is not None and effect.retention <= timedelta(0):
        yield "its retention is not positive", "write retention=days(30), or None for ever"
    elif effect.retention is not None and effect.retention > LONGEST:
        yield "its retention is longer than a century", "write retention=None for ever"
    if effect.quiet < timedelta(0):
        yield "its quiet time is negative", "write quiet=minutes(10), or minutes(0) for none"


def _remote(effect: Remote) -> Iterator[Problem]:
    upstream: Any = effect.upstream
    if upstream is None:
        yield (
            "it doesn't say how its provider treats a repeat",
            "add upstream=KEYED(ttl=...), LOOKUP or BLIND to Remote",
        )
    elif isinstance(upstream, type) and issubclass(upstream, Keyed):
        yield "KEYED doesn't say how long the provider keeps a key", "write KEYED(ttl=hours(24))"
    elif not isinstance(upstream, Keyed | Lookup | Blind):
        yield "its upstream is none", "write upstream=KEYED(ttl=...), LOOKUP or BLIND"
    elif isinstance(upstream, Keyed) and upstream.ttl <= timedelta(0):
        yield "its provider's keys live no time at all", "write KEYED(ttl=hours(24))"
    elif isinstance(upstream, Keyed) and upstream.ttl > LONGEST:
        yield "its provider's keys live longer than a century", "write KEYED(ttl=hours(24))"
    said: Any = effect.if_other_fails
    if not isinstance(said, IfOtherFails):
        yield "its if_other_fails is none", "write if_other_fails=CANCEL, GO_ON or ASK"
    yield from _times(effect)


def _times(effect: Remote) -> Iterator[Problem]:
    if effect.window < timedelta(0):
        yield "its window is negative", "write window=seconds(60), or seconds(0) for none"
    elif effect.window > LONGEST:
        yield "its window is longer than a century", "write window=seconds(60)"
    elif not 0 <= effect.guard_s <= effect.window.total_seconds():
        yield (
            f"its guard_s is {effect.guard_s:g}, expected 0 to {effect.window.total_seconds():g}",
            "shorten guard_s, or lengthen the window",
        )
    if not effect.attempt_seconds_max > 0:
        yield (
            f"its attempt_seconds_max is {effect.attempt_seconds_max:g}, expected more than 0",
            "give an attempt some seconds",
        )
    if effect.attempts_max < 1:
        yield f"its attempts_max is {effect.attempts_max}", "allow at least one attempt"
    if not 0 < effect.retry_first_seconds <= effect.retry_seconds_max <= RETRY_SECONDS_LONGEST:
        first, most = effect.retry_first_seconds, effect.retry_seconds_max
        yield (
            f"its retry_first_seconds is {first:g} and its retry_seconds_max {most:g}",
            f"expected more than 0, the latter no less, and at most {RETRY_SECONDS_LONGEST:g}",
        )


def _lane(tool: Tool, effect: Remote) -> Iterator[Problem]:
    connector: Any = effect.connector
    if connector is not None and not is_name(connector):
        yield (
            f"its connector is {connector!r}, expected a name such as 'stripe'",
            "name it in lower case, or leave it out",
        )
    names = tool.arguments.model_fields
    if effect.order_by is not None and effect.order_by not in names:
        yield (
            f"it is ordered by {effect.order_by!r}, which is no argument of it",
            f"name one of {', '.join(names)}",
        )
    priority: Any = effect.priority
    if not isinstance(priority, Priority):
        yield f"its priority is {priority!r}", "write priority=HIGH, NORMAL or LOW"


def is_name(value: object) -> bool:
    """Whether a connector can have that name."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _needs(handler: Handler | None, face: str, why: str) -> Iterator[Problem]:
    if handler is not None and getattr(handler, face) is None:
        yield f"its handler has no face {face!r}, and {why}", f"add {face} to the handler"
