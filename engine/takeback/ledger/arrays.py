"""Arrays as Postgres reads them, for statements that carry hundreds of rows each.

The driver writes any list of anything, element by element, and takes longer for it than the server
does for the row. What is written here is cast by its statement.
"""

from __future__ import annotations

from collections.abc import Iterable


def plain_array(values: Iterable[object]) -> str:
    """Of what needs no quotes: numbers, UUIDs.

    >>> plain_array([1, 2])
    '{1,2}'
    """
    return f"{{{','.join(map(str, values))}}}"


def text_array(values: Iterable[str]) -> str:
    r"""Of texts, whatever is in them.

    >>> print(text_array(['a', '{"b": "c\\d"}', '', 'NULL']))
    {"a","{\"b\": \"c\\d\"}","","NULL"}
    """
    quoted = [f'"{value.replace(_BACKSLASH, _TWO).replace(_QUOTE, _QUOTED)}"' for value in values]
    return f"{{{','.join(quoted)}}}"


def bytes_array(values: Iterable[bytes]) -> str:
    r"""Of bytes.

    >>> print(bytes_array([b"a", b""]))
    {"\\x61","\\x"}
    """
    quoted = [f'"{_TWO}x{value.hex()}"' for value in values]
    return f"{{{','.join(quoted)}}}"


_BACKSLASH, _TWO, _QUOTE, _QUOTED = "\\", "\\\\", '"', '\\"'
