"""How the embedded Postgres words a refusal: what, where, expected, next step, in this order."""

from __future__ import annotations

from pathlib import Path

from takeback.model.errors import EmbeddedUnavailable

OWN_DATABASE = "set TAKEBACK_DATABASE_URL to a Postgres of your own"


def unavailable(
    what: str, *, where: Path | str, expected: str, next_step: str
) -> EmbeddedUnavailable:
    """The exception to raise; the way out that always works is added to ``next_step``.

    >>> print(unavailable("no disk", where="/data", expected="40 MB free", next_step="make room"))
    embedded Postgres: no disk (at '/data'); expected 40 MB free. Next: make room, or set \
TAKEBACK_DATABASE_URL to a Postgres of your own.
    """
    return EmbeddedUnavailable(
        f"embedded Postgres: {what} (at {str(where)!r}); expected {expected}. "
        f"Next: {next_step}, or {OWN_DATABASE}."
    )
