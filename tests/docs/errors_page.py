"""What docs/errors.md says of codes, made from the list of codes and from real answers.

`make pages` writes it into the page, between the marks; a test fails while the page says anything
else. What stands outside of the marks is written by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from takeback.cli import failure
from takeback.model import errors
from takeback.model.code import CODES, Class, Code, Where
from tests.docs import code as source
from tests.docs.refusal import ANSWERS

ANSWERED = (Where.CALL, Where.READ, Where.RESTORE, Where.STAYS, Where.PERSON)
_PART = re.compile(
    r"(?P<begin><!-- made by `make pages`: (?P<name>[a-z ]+) -->\n).*?(?P<end><!-- end -->)",
    re.DOTALL,
)


def answered() -> list[Code]:
    """The codes that an envelope can bear."""
    return [one for one in CODES.values() if not set(one.where).isdisjoint(ANSWERED)]


def rewritten(page: str, documents: Mapping[str, Any]) -> str:
    """The page with every part between its marks made anew."""
    parts = {
        "codes": _codes(),
        "examples": _examples(documents),
        "later": _later(),
        "raised": _raised(),
        "command line": _typed(),
    }
    named = {match["name"] for match in _PART.finditer(page)}
    assert named == parts.keys(), named ^ parts.keys()
    return _PART.sub(
        lambda match: f"{match['begin']}\n{parts[match['name']].strip()}\n\n{match['end']}", page
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        f"| {' | '.join(line)} |".replace("| --- ", "|---").replace("--- |", "---|")
        for line in lines
    )


def _codes() -> str:
    return _table(
        ("code", "class", "effect", "repeat can succeed", "answers", "meaning", "what to do"),
        [
            (
                f"`{one.name}`",
                _class(one),
                ", ".join(one.effects),
                _repeat(one),
                ", ".join(str(where) for where in one.where if where in ANSWERED),
                one.meaning,
                one.advice,
            )
            for one in answered()
        ],
    )


def _class(one: Code) -> str:
    if Where.STAYS in one.where and one.class_ is not one.settled_class:
        return f"{one.class_}; {one.settled_class} once it stays with an intent"
    return str(one.class_)


def _repeat(one: Code) -> str:
    said = "yes" if one.repeat_can_succeed else "no"
    stays = Where.STAYS in one.where and one.repeat_can_succeed
    return f"{said}; no once it stays with an intent" if stays else said


def _examples(documents: Mapping[str, Any]) -> str:
    return "\n\n".join(
        f"{example.caption}:\n\n```json of={name}\n{pretty(documents[name])}\n```"
        for name, example in ANSWERS.items()
    )


def _later() -> str:
    return _table(
        ("code of a later release", "meaning", "what to do"),
        [(f"`{one.name}`", one.meaning, one.advice) for one in CODES.values() if not one.where],
    )


def _raised() -> str:
    rows = []
    for one in CODES.values():
        if Where.RAISED in one.where:
            kinds = sorted(source.of_exceptions()[one.name])
            retryable = {getattr(errors, kind).retryable for kind in kinds}
            rows.append(
                (
                    f"`{one.name}`",
                    ", ".join(f"`{kind}`" for kind in kinds),
                    " or ".join("yes" if word else "no" for word in sorted(retryable)),
                    one.meaning,
                    one.advice,
                )
            )
    return _table(("code", "exception", "retryable", "meaning", "what to do"), rows)


def _typed() -> str:
    return _table(
        ("code", "exit", "meaning", "what to do"),
        [
            (f"`{one.name}`", str(_exit(one)), one.meaning, one.advice)
            for one in CODES.values()
            if one.where == (Where.COMMAND_LINE,)
        ],
    )


def _exit(one: Code) -> int:
    return failure.INTERRUPTED if one.name == "interrupted" else failure.exit_of(one.name)


def pretty(document: Mapping[str, Any]) -> str:
    """A field a line, those of the error below it, and a violation a line.

    >>> print(pretty({"status": "refused", "error": {"violations": [{"field": "a"}]}}))
    {
     "status": "refused",
     "error": {
      "violations": [
       {"field": "a"}]}
    }
    """
    fields = [f" {json.dumps(name)}: {_value(name, one)}" for name, one in document.items()]
    return "\n".join(["{", ",\n".join(fields), "}"])


def _value(name: str, value: Any) -> str:
    if name == "error" and isinstance(value, Mapping):
        return (
            "{\n" + ",\n".join(f"  {json.dumps(n)}: {_value(n, v)}" for n, v in value.items()) + "}"
        )
    if name == "violations" and value:
        return (
            "[\n" + ",\n".join(f"   {json.dumps(one, ensure_ascii=False)}" for one in value) + "]"
        )
    return json.dumps(value, ensure_ascii=False)


def corners() -> set[tuple[str, bool]]:
    """Every pair of effect and repeat that the list allows to be answered."""
    return {
        (effect, one.repeat_can_succeed and one.class_ is not Class.TERMINAL)
        for one in answered()
        for effect in one.effects
    }
