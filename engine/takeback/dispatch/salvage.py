"""Of a batch that the database refuses each is written alone, then without its body.

So what can't be stored stops nobody else's, and what has happened is settled all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from takeback.log import logger
from takeback.model import errors

One = TypeVar("One")
Said = TypeVar("Said")


def salvage(
    batch: Sequence[One],
    write: Callable[[Sequence[One]], list[Said]],
    bare: Callable[[One], tuple[str, One | None]],
    *,
    what: str,
) -> list[Said]:
    """What ``write`` says of the batch, each call of which is one transaction.

    ``bare`` is the ref of one, and that one without its body, None where it has none; ``what`` they
    are called in the log. Raises Unavailable when nothing could be written, as far as is known.
    """
    try:
        return write(batch)
    except errors.Unavailable:
        raise
    except (errors.TakebackError, psycopg.Error, SQLAlchemyError, ValueError) as problem:
        if len(batch) > 1:
            return [said for one in batch for said in salvage([one], write, bare, what=what)]
        ref, stripped = bare(batch[0])
        if stripped is None:
            logger.error(f"{what}_not_recordable", ref=ref, exc_info=problem)
            return []
        logger.error(f"{what}_recorded_without_body", ref=ref, exc_info=problem)
    return salvage([stripped], write, bare, what=what)
