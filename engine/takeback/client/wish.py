"""Who wants what taken back, as it was said and once it is clear that it may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from takeback.client.calling import BUSY_PAUSES
from takeback.client.request import identifier_violations, with_beside
from takeback.client.restore_tool import RESTORE
from takeback.model import errors
from takeback.model.arguments import validate
from takeback.model.principal import is_agent
from takeback.model.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Who wants what taken back; ``pauses`` are what is left of the patience with others.

    ``refs`` are those that this very wish has drawn for the restore, one for each try: they tell it
    from an earlier one, also when the answer to its commit was lost.
    """

    ref: str
    run: str | None
    principal: str
    force: bool
    trace_id: str
    refs: list[Ref]
    pauses: Iterator[float]


def ref_of(arguments: Any, beside: Mapping[str, Any]) -> str:
    """The ref that a call of ``restore`` is about. Raises InvalidArguments."""
    return str(validate(RESTORE, with_beside(arguments, beside)).canonical["ref"])


def wish_for(ref: str, *, run: str | None, principal: str, force: bool, trace_id: str) -> Wish:
    """What is wished, once it is clear that it may be. Raises InvalidArguments, PersonRequired."""
    violations = identifier_violations(run=run, principal=principal)
    if violations:
        raise errors.InvalidArguments(violations)
    if force and is_agent(principal):
        raise errors.PersonRequired("only a person may force a restore")
    return Wish(
        ref=ref,
        run=run,
        principal=principal,
        force=force,
        trace_id=trace_id,
        refs=[],
        pauses=iter(BUSY_PAUSES),
    )
