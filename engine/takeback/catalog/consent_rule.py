"""No argument stands for a second thought: who fills it in is who made the call.

A model that believes it means the right customer writes ``confirm: true`` in the same breath, and
types the name of the wrong one as readily. So nothing of the kind is declared, at any depth, under
any alias, in any spelling; nor a name that is the engine's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from takeback.catalog.effect_rule import Problem
from takeback.declare import Tool
from takeback.model.likeness import folded

RESERVED_ARGUMENTS = frozenset({"repeat_of", "expect", "idempotency_key", "confirm", "force"})

_OURS = frozenset(name.replace("_", "") for name in RESERVED_ARGUMENTS)
_SURE = frozenset({"areyousure", "forced", "iamsure", "imsure", "sure", "yesiamsure"})
_LAST = frozenset({"confirmation", "confirmed", "confirms"})

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|\d+")


def name_problems(tool: Tool) -> Iterator[Problem]:
    """What is wrong with the names of the arguments, those within others too."""
    for name in sorted(_names(tool.arguments.__pydantic_core_schema__)):
        if _is_ours(name):
            yield (
                f"argument {name!r} is reserved (as are {', '.join(sorted(RESERVED_ARGUMENTS))})",
                "rename the argument",
            )
        elif is_consent(name):
            yield (
                f"argument {name!r} asks for consent of who makes the call, which proves nothing",
                "drop it; approval=Approval(...) asks a person, a preview says what is affected",
            )


def is_consent(name: str) -> bool:
    """Whether an argument of that name would have a caller agree with itself.

    >>> is_consent("confirmDelete"), is_consent("user_confirmed"), is_consent("are_you_sure")
    (True, True, True)
    >>> is_consent("confirmation_number"), is_consent("measure"), is_consent("confirmed_at")
    (False, False, False)
    """
    words = [folded(word) for word in _WORD.findall(name)]
    if not words:
        return False
    return "".join(words) in _SURE or "confirm" in words or words[-1] in _LAST


def _is_ours(name: str) -> bool:
    return "".join(folded(word) for word in _WORD.findall(name)) in _OURS


def _names(schema: Any) -> set[str]:
    """Every name and alias of a field that stands anywhere in a core schema of pydantic."""
    names: set[str] = set()
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            fields = node.get("fields", ())
            names.update(fields if isinstance(fields, dict) else (f["name"] for f in fields))
            names.update(_aliases(node.get("validation_alias")))
            waiting += node.values()
        elif isinstance(node, list | tuple):
            waiting += node
    return names


def _aliases(alias: Any) -> Iterator[str]:
    """An alias, or the first steps of several paths."""
    if isinstance(alias, str):
        yield alias
    elif isinstance(alias, list):
        for path in alias:
            first = path[0] if isinstance(path, list) and path else path
            if isinstance(first, str):
                yield first
