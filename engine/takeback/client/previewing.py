"""What a call would affect, found out beforehand, and held against what it affects.

    Local     performed in a rehearsal that is undone, or its handler's own preview, there too
    Remote    its handler's preview, or what the row says that it affects
    Read      nothing

Two foreseen sets are equal when they name the same things, by kind and id, and count as many.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any
from uuid import UUID

from takeback.catalog.registry import Bound
from takeback.client import local
from takeback.client.body import outcome_body
from takeback.client.context import Context
from takeback.client.face import Broke, performed, try_face
from takeback.declare import Affects, Local, Read
from takeback.declare.argument import INTEGER_MAX
from takeback.ledger.acting import Actor, act_as
from takeback.ledger.previewing import (
    Kept,
    checked_later,
    read_preview,
    rehearsal,
    tokens_between,
)
from takeback.ledger.sqlstate import waited_for
from takeback.ledger.transaction import Tx
from takeback.model import errors
from takeback.model.arguments import Arguments, differences
from takeback.model.handler import Affected, Performed
from takeback.model.key import canonical_bytes
from takeback.model.ref import beginnings, is_wellformed, nearest, normalise
from takeback.model.violation import shown

AFFECTED_KEPT_MAX = 10_000
"""So many are kept by name. Of what is beyond them, a digest tells whether it is the same."""

LABEL_LENGTH_MAX = 200

DIFFERENCES_TOLD_MAX = 10
"""So many that appeared, and so many that are gone, are named; the others are counted."""

IN_WORDS_MAX = 3

TOKEN_WORD = "preview"
LOOK_ALIKES_READ_MAX = 200

OUTSIDE = "what the tool, or a trigger, does outside of the database transaction"
LATER_CHECKS = "checks that the database makes only at the commit"
UNNAMED = "what is affected: the tool names only some of it, or nothing"
UPSTREAM = "whether whoever carries it out will accept it"

IN_VAIN = {
    "lock": "somebody else is working at this moment on what it would affect; ask again",
    "time": "what it would affect could not be found out in time; ask again later",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What a call would affect.

    ``affected`` is sorted by kind and id and holds at most AFFECTED_KEPT_MAX of the ``named``
    things; ``digest`` is that of all of them, and ``affected_count`` counts those without a name
    too. ``not_covered`` says what could not be foreseen.
    """

    affected: tuple[Affected, ...]
    affected_count: int
    named: int
    digest: str
    summary: str | None = None
    leaves: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()


def foresee_call(
    context: Context,
    tx: Tx,
    bound: Bound,
    arguments: Arguments,
) -> Foreseen:
    """What a call of ``bound`` would affect now; nothing of it is left in ``tx``.

    Raises what the handler raised to refuse (HandlerError), InProgress when somebody else works on
    what it would affect, RetryTransaction, and DatabaseUnavailable.
    """
    if isinstance(bound.effect, Read):
        return foreseen_of(Performed(affected_count=0), bound)
    if not isinstance(bound.effect, Local):
        return foresee_remote(bound, arguments)
    with patiently(), rehearsal(tx) as inner:
        before = checked_later(inner)
        nobody = UUID(bytes=context.entropy(16), version=4)
        act_as(inner, Actor(context.tenant, str(nobody)))
        face = bound.handler.preview or bound.handler.perform
        done = local.run_face(inner, bound.name, face, arguments.model)
        return with_local_gaps(inner, foreseen_of(done, bound), before)


@contextmanager
def patiently() -> Iterator[None]:
    """Says InProgress where a rehearsal has waited in vain: its transaction can go on."""
    try:
        yield
    except errors.RetryTransaction as problem:
        waited = waited_for(problem)
        if waited is None:
            raise
        raise errors.InProgress(IN_VAIN[waited]) from problem


def with_local_gaps(inner: Tx, seen: Foreseen, before: int | None) -> Foreseen:
    """With what no rehearsal shows, looked up in the one that is about to be undone.

    ``before`` is what ``checked_later`` said at its beginning.
    """
    after = checked_later(inner)
    later = (LATER_CHECKS,) if after is None or after != before else ()
    return replace(seen, not_covered=(*seen.not_covered, *later, OUTSIDE))


def foresee_remote(bound: Bound, arguments: Arguments) -> Foreseen:
    """Nothing is carried out, so a handler that can't tell is taken at its row's word.

    Needs no transaction: a handler may ask its provider. Raises HandlerError.
    """
    face, affects = bound.handler.preview, bound.tool.affects
    if face is not None:
        done = try_face(face, arguments.model)
        if isinstance(done, Broke):
            raise errors.HandlerBroke(bound.name) from done.problem
        seen = foreseen_of(performed(done), bound)
    elif affects is not None:
        seen = foreseen_of(Performed(affected=by_row(affects, arguments.canonical)), bound)
    else:
        seen = foreseen_of(Performed(), bound)
    return replace(seen, not_covered=(*seen.not_covered, UPSTREAM))


def by_row(affects: Affects, canonical: Mapping[str, Any]) -> list[Affected]:
    """What a row says that a call affects, where its handler says nothing."""
    named = str(shown(canonical.get(affects.id, "")))
    return [Affected(kind=affects.kind, id=named, label=named)]


def foreseen_of(done: Performed, bound: Bound) -> Foreseen:
    """What was, or would be, affected by ``done``, in the one form in which sets are compared."""
    told = json.loads(outcome_body(replace(done, result=None)))
    things = _in_order(told["affected"])
    wording = bound.tool.wording
    is_known = isinstance(bound.effect, Read) or told["affected_count"] == len(told["affected"]) > 0
    return Foreseen(
        affected=things[:AFFECTED_KEPT_MAX],
        affected_count=min(told["affected_count"], INTEGER_MAX),
        named=len(things),
        digest=_digest(things),
        summary=told["summary"],
        leaves=tuple(told["leaves"]) or (wording.leaves if wording else ()),
        not_covered=() if is_known else (UNNAMED,),
    )


def foreseen_before(stored: Mapping[str, Any]) -> Foreseen:
    """What was foreseen, from the document of ``affected_text``."""
    return Foreseen(
        affected=tuple(Affected(**one) for one in stored["affected"]),
        affected_count=stored["affected_count"],
        named=stored["named"],
        digest=stored["digest"],
    )


def _in_order(told: Iterable[Mapping[str, str]]) -> tuple[Affected, ...]:
    """Each thing once: the same one named twice is one."""
    named = {(one["kind"], one["id"]): one["label"][:LABEL_LENGTH_MAX] for one in told}
    return tuple(Affected(kind=k, id=i, label=named[k, i]) for k, i in sorted(named))


def _digest(things: Iterable[Affected]) -> str:
    return sha256(canonical_bytes([[one.kind, one.id] for one in things])).hexdigest()


def affected_text(foreseen: Foreseen) -> str:
    """The affected set as canonical JSON: what is stored, and what a decision about it is bound to.

    >>> affected_text(Foreseen(affected=(), affected_count=0, named=0, digest="d"))
    '{"affected":[],"affected_count":0,"digest":"d","named":0}'
    """
    document = {
        "affected": [
            {"kind": one.kind, "id": one.id, "label": one.label} for one in foreseen.affected
        ],
        "affected_count": foreseen.affected_count,
        "named": foreseen.named,
        "digest": foreseen.digest,
    }
    return canonical_bytes(document).decode()


def compare(stored: Mapping[str, Any], now: Foreseen) -> tuple[Mapping[str, Any], ...]:
    """Where a stored set, the document of ``affected_text``, and what is foreseen now differ.

    Empty when they are equal: a label is no difference. Names at most DIFFERENCES_TOLD_MAX that
    appeared and as many that are gone, and counts the others (``more``).
    """
    if (stored["digest"], stored["affected_count"]) == (now.digest, now.affected_count):
        return ()
    before = {(one["kind"], one["id"]): one["label"] for one in stored["affected"]}
    after = {(one.kind, one.id): one.label for one in now.affected}
    ends = [
        max(kept)
        for kept, named in ((before, stored["named"]), (after, now.named))
        if len(kept) < named
    ]
    # Behind the last one that is kept, nothing is known to be missing.
    appeared = [k for k in sorted(after.keys() - before.keys()) if all(k <= end for end in ends)]
    gone = [k for k in sorted(before.keys() - after.keys()) if all(k <= end for end in ends)]
    found = [*_told("appeared", appeared, after), *_told("gone", gone, before)]
    if not found and stored["digest"] != now.digest:
        found = [{"field": "affected", "change": "changed", "beyond": AFFECTED_KEPT_MAX}]
    if len(appeared) - len(gone) != now.affected_count - stored["affected_count"]:
        counts = {"previewed": stored["affected_count"], "now": now.affected_count}
        found.append({"field": "affected_count", **counts})
    return tuple(found)


def _told(
    change: str, keys: Sequence[tuple[str, str]], labels: Mapping[tuple[str, str], str | None]
) -> list[Mapping[str, Any]]:
    told: list[Mapping[str, Any]] = [
        {"field": "affected", "kind": key[0], "id": key[1], "label": labels[key], "change": change}
        for key in keys[:DIFFERENCES_TOLD_MAX]
    ]
    more = len(keys) - len(told)
    return [*told, {"field": "affected", "change": change, "more": more}] if more else told


def require_expected(
    context: Context,
    tx: Tx,
    tool_name: str,
    canonical_arguments: Mapping[str, Any],
    *,
    expect: str,
    now: Foreseen,
) -> None:
    """Raises PreviewStale unless ``expect`` was issued for this very call, and would affect this.

    What differs is named: arguments with both values, things that appeared or are gone.
    """
    stored = _stored(context, tx, expect)
    arguments = json.loads(stored.arguments)
    if stored.tool != tool_name:
        raise errors.PreviewStale(
            f"{expect} previewed {stored.tool}, not {tool_name}; preview this call",
            [{"field": "tool", "previewed": stored.tool, "now": tool_name}],
        )
    others = [
        {"field": d.field, "previewed": shown(d.first), "now": shown(d.now)}
        for d in differences(arguments, canonical_arguments)
    ]
    if others:
        fields = ", ".join(one["field"] for one in others)
        raise errors.PreviewStale(
            f"{expect} previewed this call with another {fields}; preview it as it is now", others
        )
    changed = compare(json.loads(stored.affected), now)
    if changed:
        raise errors.PreviewStale(
            f"what it would affect is no longer what was previewed: {in_words(changed)}; "
            "preview it again, and look at what has changed",
            changed,
        )


def _stored(context: Context, tx: Tx, expect: str) -> Kept:
    """The preview behind a token; raises PreviewStale, with look-alikes, when there is none."""
    token = normalise(expect)
    stored = read_preview(tx, context.tenant, token) if is_wellformed(token) else None
    if stored is not None:
        return stored
    look_alikes = list(_look_alikes(context, tx, token))
    hint = f" (did you mean {look_alikes[0]!r}?)" if look_alikes else ""
    raise errors.PreviewStale(
        f"no preview of the last day has answered {shown(expect)!r}{hint}; preview the call, and "
        "send the 'expect' that it answers, or leave 'expect' out",
        [{"field": "expect", "received": shown(expect), "nearest": look_alikes}],
    )


def _look_alikes(context: Context, tx: Tx, token: str) -> Sequence[str]:
    """Of this tenant, and only for what is nearly a token: they are shown, never acted upon."""
    near: set[str] = set()
    for low in beginnings(token):
        if low.startswith(f"{TOKEN_WORD}-"):
            near.update(tokens_between(tx, context.tenant, low, f"{low}~", LOOK_ALIKES_READ_MAX))
    return nearest(token, sorted(near))


def in_words(changed: Sequence[Mapping[str, Any]]) -> str:
    """What ``compare`` has found, in a few words that can be told to anybody."""
    parts = []
    for change, word in (("appeared", "new"), ("gone", "gone")):
        ones = [one for one in changed if one.get("change") == change]
        names = [f"{one['kind']} {one['id']}" for one in ones if "id" in one]
        more = len(names[IN_WORDS_MAX:]) + sum(one.get("more", 0) for one in ones)
        if names:
            rest = f" and {more} more" if more else ""
            parts.append(f"{word}: {', '.join(names[:IN_WORDS_MAX])}{rest}")
    return "; ".join(parts) or "other things, or another number of them"
