"""A named SQL statement with its reason, its index and its lock."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import TextClause
from sqlalchemy.engine import Dialect
from sqlalchemy.engine.url import make_url

_DIALECT: Dialect = make_url("postgresql+psycopg://").get_dialect()()


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of the ledger.

    ``index`` names what it reads through (None when it reads no table of ours, or all of one),
    ``lock`` what it takes. ``sql`` is the text as the driver wants it.
    """

    name: str
    sentence: str
    index: str | None
    lock: str
    text: TextClause
    sql: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sql", str(self.text.compile(dialect=_DIALECT)))
        assert self.name not in STATEMENTS, f"two statements are named {self.name!r}"
        STATEMENTS[self.name] = self


STATEMENTS: dict[str, Statement] = {}
"""Every statement by name, so that a test can EXPLAIN each."""
