"""Answers with less in them: whoever reads these has to fare worse, or the fields are of no use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Answer = dict[str, Any]

_CANDIDATES = frozenset({"permitted", "permitted_count", "suggestion", "lookup"})


def whole(answer: Answer) -> Answer:
    """The answer as it is.

    >>> whole({"status": "done"})
    {'status': 'done'}
    """
    return answer


def no_candidates(answer: Answer) -> Answer:
    """What is wrong, and nothing of what would be right.

    >>> no_candidates({"error": {"violations": [{"field": "a", "suggestion": 1}]}})["error"]
    {'violations': [{'field': 'a'}], 'next_call': None, 'alternatives': []}
    """
    error = answer.get("error")
    if error is None:
        return answer
    violations = [
        {name: value for name, value in violation.items() if name not in _CANDIDATES}
        for violation in error["violations"]
    ]
    less = {"violations": violations, "next_call": None, "alternatives": []}
    return answer | {"error": error | less}


def first_violation_only(answer: Answer) -> Answer:
    """One thing at a time, as most validators do it."""
    error = answer.get("error")
    if error is None or len(error["violations"]) < 2:
        return answer
    less = {"violations": error["violations"][:1], "next_call": None}
    return answer | {"error": error | less}


def prose_only(answer: Answer) -> Answer:
    """The same said in a sentence, as most frameworks hand errors to a model."""
    error = answer.get("error")
    if error is None:
        return answer
    said = [f"{one['field']}: {one['message']}" for one in error["violations"]]
    message = f"Error: {'; '.join(said) or error['message']}"
    return {"status": answer["status"], "error": {"message": message}}


def guessing(answer: Answer) -> Answer:
    """The nearest permitted value, as if it were the only reading: what an answer must not do."""
    error = answer.get("error")
    if error is None:
        return answer
    violations = [
        violation | {"suggestion": violation["permitted"][0], "repair": "mechanical"}
        if violation.get("permitted") and violation["code"] == "not_permitted"
        else violation
        for violation in error["violations"]
    ]
    return answer | {"error": error | {"violations": violations}}


Reading = Callable[[Answer], Answer]

ABLATIONS: Mapping[str, Reading] = {
    "whole": whole,
    "no candidates": no_candidates,
    "first violation only": first_violation_only,
    "prose only": prose_only,
}
