"""How things look to people: an answer as a block, rows in columns, a log as a timeline.

Nothing is drawn round anything, and no ref is ever shortened: what is printed can be pasted.
"""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from takeback.cli.failure import PERSON_SECONDS
from takeback.cli.voice import Voice, plain

if TYPE_CHECKING:
    from takeback.ledger.reading import Stored

LABEL_WIDTH = 13
INDENT = " " * 4
NARROWEST = 40
GAP = "  "

RESTORE = "restore"
"""The tool whose calls are meant once: who wants a thing back twice takes back the second."""

_COLOR_OF = {
    "done": "good",
    "ok": "good",
    "taken_back": "good",
    "scheduled": "waiting",
    "in_progress": "waiting",
    "needs_approval": "waiting",
    "in_doubt": "doubt",
    "no_matches": "waiting",
}


def columns(voice: Voice, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows under their headings; the last cell of each is text of any length.

    Where it doesn't fit beside the others on a terminal it is wrapped below them.
    """
    cells = [[plain(cell) for cell in row] for row in rows]
    shown = [heading.upper() for heading in headings]
    widths = [max(map(len, column)) for column in zip(shown, *cells, strict=True)]
    if sum(widths) + len(GAP) * (len(widths) - 1) <= voice.width:
        return [_row(row, widths) for row in [shown, *cells]]
    lines = [_row(shown[:-1], widths)]
    for row in cells:
        lines.append(_row(row[:-1], widths))
        lines += wrapped(row[-1], voice.width)
    return lines


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
    return GAP.join(padded).rstrip()


def wrapped(text: str, width: int) -> list[str]:
    """The text in indented lines that fit; what has no space in it stays whole.

    >>> wrapped("refund_charge-7F3K9QDM was taken back by dana", 40)
    ['    refund_charge-7F3K9QDM was taken', '    back by dana']
    """
    return textwrap.wrap(
        text,
        max(width, NARROWEST),
        initial_indent=INDENT,
        subsequent_indent=INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def field(label: str, text: object) -> str:
    """A labelled line of a block.

    >>> field("ref", "a-1"), field("window_seconds", 60.0)
    ('  ref          a-1', '  window_seconds 60.0')
    """
    return f"  {label.ljust(LABEL_WIDTH - 1)} {plain(text)}".rstrip()


def answer_block(voice: Voice, answer: Mapping[str, Any], app_option: str) -> list[str]:
    """The lean answer of a call, as people read it."""
    status = str(answer["status"])
    decided = answer.get("decided") or {}
    is_ruled = decided.get("how") in _RULED
    is_as_said = (decided.get("how"), status) in _DECIDED
    color = "good" if is_ruled or is_as_said else _COLOR_OF.get(status, "bad")
    head = voice.strong(_DECIDED.get((decided.get("how"), status), status), color)
    if answer.get("ref"):
        head = f"{head}  {answer['ref']}"
    was_said = "decided before" if answer.get("decided") else "an answer given before"
    lines = [f"{head}  ({was_said})" if answer.get("replayed") else head]
    if answer.get("summary"):
        lines.append(f"  {plain(answer['summary'])}")
    lines += _found(answer)
    if is_ruled:
        lines += _ruled(answer, app_option)
    elif answer.get("error"):
        lines += _error(answer["error"], app_option)
    lines += _affected(answer)
    lines += _foretold(answer)
    lines += _waiting(answer, app_option)
    lines += _replay(answer)
    lines += _amendment(answer)
    lines += restore_lines(answer, app_option)
    if answer.get("error") and answer.get("trace_id"):
        lines.append(field("trace", answer["trace_id"]))
    return lines


def _found(answer: Mapping[str, Any]) -> Iterable[str]:
    """What a read has found: what it comes to, the rows that are told, and how many are not."""
    if answer.get("totals"):
        yield field("totals", _pairs(answer["totals"]))
    for group in answer.get("groups", ()):
        totals = f" ({_pairs(group['totals'])})" if group.get("totals") else ""
        yield field("group", f"{group['label']}: {group['count']}{totals}")
    for match in answer.get("matches", ()):
        yield f"  - {_pairs(match)}"
    if answer.get("matches_not_shown"):
        yield field("", f"and {answer['matches_not_shown']} more, in the full answer")
    if answer.get("not_searched"):
        yield field("not searched", ", ".join(answer["not_searched"]))


def _pairs(named: Mapping[str, Any]) -> str:
    return ", ".join(f"{plain(name)}: {_value(value)}" for name, value in named.items())


def full_lines(everything: Mapping[str, Any]) -> list[str]:
    """What there is beside the lean answer, a line for each part."""
    return [field(name, _value(part)) for name, part in everything.items()]


def _value(value: Any) -> str:
    return plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _affected(answer: Mapping[str, Any]) -> Iterable[str]:
    for one in answer.get("affected", ()):
        label = one.get("label")
        known_as = f" ({label})" if label and label != one["id"] else ""
        yield field("affects", f"{one['kind']} {one['id']}{known_as}")
    more = answer.get("affected_count", 0) - len(answer.get("affected", ()))
    if more > 0:
        yield field("", f"and {more} more")
    if answer.get("affected_by_kind"):
        yield field("in all", _pairs(answer["affected_by_kind"]))
    if answer.get("result_stored") is False:
        yield field("result", "not stored: it can't be written down as JSON")


def _foretold(answer: Mapping[str, Any]) -> Iterable[str]:
    """What a preview says: how it could be taken back, what it doesn't see, what to expect."""
    undo = answer.get("undo")
    if undo is not None:
        until = f", until {undo['until']}" if undo.get("until") else ""
        yield field("undo", f"{undo['does']}{until}")
        for left in undo.get("leaves", ()):
            yield field("", f"leaves {left}")
    for gap in answer.get("not_covered", ()):
        yield field("not seen", gap)
    if answer.get("expect"):
        yield field("to call", f"the same with --expect {answer['expect']}")


def _waiting(answer: Mapping[str, Any], app_option: str) -> Iterable[str]:
    """Until when a person may decide, and where they look; ``show`` itself says more."""
    approval = answer.get("approval") or {}
    if answer.get("ref") and "expires_at" in approval and "asked_at" not in approval:
        yield field("waits until", approval["expires_at"])
        yield field("to decide", f"takeback {app_option}show {shlex.quote(answer['ref'])}")


def _replay(answer: Mapping[str, Any]) -> Iterable[str]:
    if answer.get("decided"):
        return
    if answer.get("first_called_at"):
        yield field("first at", answer["first_called_at"])
    for one in answer.get("differs", ()):
        sides = f"first {_value(one['first'])}, now {_value(one['now'])}"
        yield field("differs", f"{one['field']}: {sides}")
    again = answer["again"]["repeat_of"] if answer.get("again") else None
    if again is not None and not again.startswith(f"{RESTORE}-"):
        yield field("once more", f"the same call with --repeat-of {again}")
    if answer.get("taken_back_at"):
        yield field("taken back", f"by {answer['taken_back_by']} at {answer['taken_back_at']}")
    if answer.get("redone_by"):
        yield _anew("redone by", answer["redone_by"])


def _amendment(answer: Mapping[str, Any]) -> Iterable[str]:
    if answer.get("amends"):
        yield field("in place of", answer["amends"])
    if answer.get("amended_by"):
        yield _anew("stands as", answer["amended_by"])


def _anew(name: str, one: Mapping[str, Any]) -> str:
    """What was recorded in its place; whether that stands is part of it."""
    if one.get("stands", True):
        return field(name, one["ref"])
    return field("called anew", f"as {one['ref']}, which does not stand either")


_RULED = {
    "retried": "is tried again",
    "succeeded": "has happened",
    "failed": "did not happen",
    "unknown": "nobody knows",
}
"""What a person has said of what nobody else can end."""


_DECIDED: Mapping[tuple[Any, str], str] = {
    ("succeeded", "done"): "resolved: it has happened",
    ("failed", "refused"): "resolved: it did not happen",
    ("unknown", "in_doubt"): "resolved: nobody knows",
    ("denied", "refused"): "denied: it never happens",
}
"""The head of a person's verb that was done, by its word and the status of what it is about."""


def _ruled(answer: Mapping[str, Any], app_option: str) -> Iterable[str]:
    """What a person has decided, and what they can do next: no refusal, whatever became of it."""
    decided, ref = answer["decided"], shlex.quote(answer["ref"])
    said = f"takeback {app_option}"
    yield field("decided", f"{_RULED[decided['how']]}: {decided['by']} at {decided['at']}")
    if answer["status"] == "refused":
        yield field("try again", f"{said}retry {ref}")
        yield field("once more", f"the same call with --repeat-of {answer['ref']}")
    elif answer["status"] == "in_doubt":
        yield field("see", f"{said}show {ref}")
    elif answer["status"] == "scheduled" and answer.get("restore") is None:
        yield field("stop it", f"{said}resolve {ref} --as unknown")


def restore_lines(answer: Mapping[str, Any], app_option: str) -> Iterable[str]:
    """The command that takes it back, ready to be pasted, or why there is none."""
    call = answer.get("restore")
    if call is None:
        if answer.get("no_restore"):
            yield field("take back", f"not possible: {answer['no_restore']}")
        return
    ref = shlex.quote(call["arguments"]["ref"])
    yield field("take back", f"takeback {app_option}restore {ref}")
    yield field("", call["does"])
    if call.get("until"):
        yield field("", f"until {call['until']}")
    for left in call.get("leaves", ()):
        yield field("", f"leaves {left}")


def _error(error: Mapping[str, Any], app_option: str) -> Iterable[str]:
    yield f"  {plain(error['code'])}: {plain(error['message'])}"
    for one in error.get("violations", ()):
        yield f"  - {_violation(one)}"
    call = error.get("next_call")
    if call:
        yield field("try", f"takeback {app_option}{_typed(call)}")
    for number, line in enumerate(_alternatives(error.get("alternatives", ()), app_option)):
        yield field("there is" if number == 0 else "", line)
    wait = error.get("retry_after_s")
    if wait is not None and error["code"] == "database_unavailable" and wait >= PERSON_SECONDS:
        yield field("again", "once an operator has done that: waiting doesn't help")
    elif wait is not None:
        yield field("again", f"in {wait} s")


def _typed(call: Mapping[str, Any]) -> str:
    """A call as it is typed.

    >>> _typed({"tool": "restore", "arguments": {"ref": "pay-7F3K9QDM"}})
    'restore pay-7F3K9QDM'
    >>> _typed({"tool": "preview", "arguments": {"tool": "pay", "arguments": {}}})
    "preview pay --args '{}'"
    """
    tool, arguments = call["tool"], call["arguments"]
    if tool == RESTORE and arguments.keys() == {"ref"}:
        return f"{RESTORE} {shlex.quote(arguments['ref'])}"
    verb = "call"
    if tool == "preview" and {"tool", "arguments"} <= arguments.keys():
        verb, tool, arguments = "preview", arguments["tool"], arguments["arguments"]
    given = shlex.quote(json.dumps(arguments, ensure_ascii=False))
    return f"{verb} {shlex.quote(tool)} --args {given}"


_STEPS = {
    "resolve": "resolve {ref} --as {word}",
    "retry": "retry {ref}",
    "amend": "amend {ref} --args '...'",
}
"""How a verb is typed that an alternative names, with the ref that it is about: a line a word."""


def _alternatives(alternatives: Sequence[Any], app_option: str) -> Iterable[str]:
    """Names on one line, and whatever is longer on one of its own."""
    names = [_value(one) for one in alternatives if isinstance(one, str) and " " not in one]
    if names:
        yield ", ".join(names)
    for one in alternatives:
        if isinstance(one, Mapping):
            verb = next((verb for verb in _STEPS if verb in one), None)
            if verb is None:
                yield _pairs(one)
            else:
                ref = shlex.quote(str(one[verb]))
                for word in one.get("as", ("",)):
                    yield f"takeback {app_option}{_STEPS[verb].format(ref=ref, word=word)}"
        elif not isinstance(one, str) or " " in one:
            yield _value(one)


# The sentence has it, or a program wants it; what is left are the values of either side, and
# what is permitted where the sentence does not say so.
_SAID_BEFORE = frozenset(
    {"field", "code", "message", "repair", "suggestion", "permitted", "permitted_count"}
)


def _violation(one: Mapping[str, Any]) -> str:
    said = f"{plain(one.get('field'))}: {plain(one.get('message', 'differs'))}"
    untold = _SAID_BEFORE | {"received"} if one.get("code") == "missing" else _SAID_BEFORE
    sides = [f"{plain(name)} {_value(one[name])}" for name in one if _is_told(one, name, untold)]
    sides += _permitted(one, said)
    said = "; ".join([said, ", ".join(sides)]) if sides else said
    if one.get("suggestion") is not None:
        said += f"; did you mean {_value(one['suggestion'])}?"
    return said


def _is_told(one: Mapping[str, Any], name: str, untold: frozenset[str]) -> bool:
    return name not in untold and one[name] != []


def _permitted(one: Mapping[str, Any], said: str) -> Iterable[str]:
    """The values that may be sent instead, but for those that ``said`` names already.

    >>> list(_permitted({"permitted": ["T-1", "T-2"], "permitted_count": 3}, "is no ticket"))
    ['permitted T-1, T-2 and 1 more']
    """
    values = [_value(value) for value in one.get("permitted") or ()]
    if not values or all(value in said for value in values):
        return
    more = one.get("permitted_count", len(values)) - len(values)
    yield f"permitted {', '.join(values)}" + (f" and {more} more" if more > 0 else "")


def event_of(stored: Stored, ref: str | None) -> dict[str, Any]:
    """An event of the log as programs read it: its payload as it is stored."""
    return {
        "position": stored.position,
        "ref": ref,
        "tenant": stored.tenant,
        "intent_id": str(stored.intent_id),
        "version": stored.version,
        "kind": stored.kind,
        "at": instant_text(stored.at_us),
        "payload": json.loads(stored.payload),
    }


def instant_text(micros: int) -> str:
    """An instant of the database to the microsecond.

    >>> instant_text(1_790_000_000_000_001)
    '2026-09-21T14:13:20.000001Z'
    """
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# Said elsewhere on the same page, or for machines alone.
_UNTOLD = frozenset(
    {
        *("ref", "tool", "key", "arguments", "affected", "result", "error", "body", "saw"),
        *("reason", "waited_for"),
    }
)
# Fields in microseconds that are no instants.
_SPANS = frozenset({"window_us", "approval_us"})


def timeline(
    voice: Voice, events: Sequence[Mapping[str, Any]], waited_for: Mapping[str, Any] | None = None
) -> list[str]:
    """The events of one intent, one a row; ``waited_for`` is what one of them has a digest of."""
    other = {} if waited_for is None else {"other": waited_for["ref"]}
    rows = [
        (
            str(event["version"]),
            str(event["at"]),
            str(event["kind"]).removeprefix("intent."),
            ", ".join(
                _told(event["payload"] | (other if "waited_for" in event["payload"] else {}))
            ),
        )
        for event in events
    ]
    return columns(voice, ("#", "at", "event", "what"), rows)


def _told(payload: Mapping[str, Any]) -> Iterable[str]:
    for name, value in payload.items():
        if name in _UNTOLD or value is None or value == []:
            continue
        if name.endswith("_us") and name not in _SPANS:
            yield f"{name.removesuffix('_us')} {instant_text(value)}"
        elif name in _SPANS:
            yield f"{name.removesuffix('_us')} {value / 1_000_000:g} s"
        else:
            yield f"{name} {_value(value)}"
