"""Our own sentence and stable code for each thing that a type can object to.

Keyed by the type of pydantic's error, whose words and addresses are never shown. A sentence goes
on from the argument's name; ``{...}`` is filled from the error's context.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WHOLE = ("wrong_type", "must be a whole number")
_NUMBER = ("wrong_type", "must be a number")
_DECIMAL = ("wrong_type", "must be a decimal number, such as 12.50")
_TEXT = ("wrong_type", "must be text")
_LIST = ("wrong_type", "must be a list")
_OBJECT = ("wrong_type", "must be an object")
_INSTANT = (
    "wrong_type",
    "must be an instant with its offset from UTC, such as 2026-11-29T14:05:10Z",
)
_SPAN = ("wrong_type", "must be a span of time, such as PT90S")

_UNKNOWN = ("invalid_value", "is not valid here")

# Members of a family, such as int_parsing of int, share its sentence unless they have their own.
_FAMILIES: Mapping[str, tuple[str, str]] = {
    "bool": ("wrong_type", "must be true or false"),
    "bytes": _TEXT,
    "dataclass": _OBJECT,
    "date": ("wrong_type", "must be a date, such as 2026-11-29"),
    "datetime": _INSTANT,
    "decimal": _DECIMAL,
    "deque": _LIST,
    "dict": _OBJECT,
    "float": _NUMBER,
    "frozen": _LIST,
    "int": _WHOLE,
    "iterable": _LIST,
    "list": _LIST,
    "mapping": _OBJECT,
    "model": _OBJECT,
    "named": _LIST,
    "set": _LIST,
    "string": _TEXT,
    "time": ("wrong_type", "must be a time of day, such as 14:05:10"),
    "timezone": _INSTANT,
    "tuple": _LIST,
    "url": ("malformed", "must be a URL, such as https://example.com/"),
    "uuid": ("malformed", "must be a UUID"),
}

_SENTENCES: Mapping[str, tuple[str, str]] = {
    "assertion_error": ("invalid_value", "breaks a rule of this tool"),
    "date_future": ("out_of_range", "must be in the future"),
    "date_past": ("out_of_range", "must be in the past"),
    "datetime_future": ("out_of_range", "must be in the future"),
    "datetime_past": ("out_of_range", "must be in the past"),
    "decimal_max_digits": ("out_of_range", "must have at most {max_digits} digits"),
    "decimal_max_places": ("out_of_range", "must have at most {decimal_places} decimal places"),
    "decimal_whole_digits": (
        "out_of_range",
        "must have at most {whole_digits} digits before the point",
    ),
    "enum": ("not_permitted", "must be one of the permitted values"),
    "extra_forbidden": ("unknown_argument", "is not an argument of this tool"),
    "finite_number": ("not_representable", "must be a finite number"),
    "frozen_dict_type": _OBJECT,
    "greater_than": ("out_of_range", "must be greater than {gt}"),
    "greater_than_equal": ("out_of_range", "must be at least {ge}"),
    "invalid_key": ("not_representable", "must have text as the names of its fields"),
    "less_than": ("out_of_range", "must be less than {lt}"),
    "less_than_equal": ("out_of_range", "must be at most {le}"),
    "literal_error": ("not_permitted", "must be one of the permitted values"),
    "missing": ("missing", "is required"),
    "missing_argument": ("missing", "is required"),
    "missing_keyword_only_argument": ("missing", "is required"),
    "missing_positional_only_argument": ("missing", "is required"),
    "multiple_of": ("out_of_range", "must be a multiple of {multiple_of}"),
    "none_required": ("wrong_type", "must be null"),
    "ordered_dict_type": _OBJECT,
    "recursion_loop": ("too_deep", "must not contain itself"),
    "string_pattern_mismatch": ("malformed", "must match the pattern {pattern}"),
    "string_too_long": ("too_long", "must have at most {max_length} characters"),
    "string_too_short": ("too_short", "must have at least {min_length} characters"),
    "string_unicode": ("not_representable", "must be well-formed Unicode"),
    "time_delta_parsing": _SPAN,
    "time_delta_type": _SPAN,
    "timezone_naive": ("malformed", "must not say an offset from UTC"),
    "too_long": ("too_long", "must have at most {max_length} items"),
    "too_short": ("too_short", "must have at least {min_length} items"),
    "unexpected_keyword_argument": ("unknown_argument", "is not an argument of this tool"),
    "union_tag_invalid": ("not_permitted", "must be one of the permitted values"),
    "union_tag_not_found": ("missing", "is required"),
    "url_too_long": ("too_long", "must have at most {max_length} characters"),
    "value_error": ("invalid_value", "breaks a rule of this tool"),
}


def sentence_for(kind: str, context: Mapping[str, Any]) -> tuple[str, str]:
    """The code and the sentence for one kind of pydantic error.

    >>> sentence_for("int_parsing", {})
    ('wrong_type', 'must be a whole number')
    >>> sentence_for("string_too_short", {"min_length": 3})
    ('too_short', 'must have at least 3 characters')
    """
    family = kind.partition("_")[0]
    code, template = _SENTENCES.get(kind) or _FAMILIES.get(family) or _UNKNOWN
    try:
        return code, template.format_map(context)
    except LookupError:
        return code, _UNKNOWN[1]
