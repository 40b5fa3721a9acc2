"""A person ends the pause of a connector: its breaker is as if no attempt had ever failed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from takeback.client.context import Context
from takeback.client.owning import in_own_transaction
from takeback.client.request import identifier_violations
from takeback.ledger.bound import bound
from takeback.ledger.governing import await_lanes, write_lanes
from takeback.ledger.health import look
from takeback.ledger.transaction import Tx
from takeback.log import logger
from takeback.model import errors
from takeback.model.lane import Lane, closed
from takeback.model.likeness import nearest_first
from takeback.model.principal import is_agent
from takeback.model.violation import Violation, shown

PATIENCE = timedelta(seconds=2)
"""A claim holds a connector's row for milliseconds; whoever holds it longer is not waited for."""

NAMES_SHOWN_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """What was ended: ``paused_since`` is None where the connector was not paused, ``failures`` is
    how many attempts in a row had not been answered.
    """

    connector: str
    paused_since: datetime | None
    failures: int


def resume(context: Context, connector: str, *, principal: str) -> Resumed:
    """Ends the pause of ``connector`` for all workers; twice is once.

    A probe that is under way goes on: its answer counts as any other, and so does its failure, as
    the first of a new row. Raises PersonRequired, InvalidArguments and DatabaseUnavailable.
    """
    violations = identifier_violations(run=None, principal=principal)
    if violations:
        raise errors.InvalidArguments(violations)
    if is_agent(principal):
        raise errors.PersonRequired("only a person may end the pause of a connector")
    before = in_own_transaction(context, lambda tx: _resume(context, tx, connector))
    if before is None:
        return Resumed(connector=connector, paused_since=None, failures=0)
    if before.opened_at is not None:
        logger.info("connector_resumed", connector=before.name, principal=principal)
    return Resumed(connector=before.name, paused_since=before.opened_at, failures=before.failures)


def _resume(context: Context, tx: Tx, name: str) -> Lane | None:
    """The lane as it was; None where no worker has come to it yet."""
    bound(tx, PATIENCE)
    for lane in await_lanes(tx, [name]):
        if closed(lane) != lane:
            write_lanes(tx, [closed(lane)])
        return lane
    if name in context.registry.connectors:
        return None
    known = sorted({*(one.lane.name for one in look(tx).lanes), *context.registry.connectors})
    nearest = nearest_first(name, known)[:NAMES_SHOWN_MAX]
    raise errors.InvalidArguments(
        [
            Violation(
                field="connector",
                code="not_permitted",
                message=f"is {shown(name)!r}; expected one of: {', '.join(nearest) or 'none yet'}",
                received=shown(name),
                permitted=tuple(nearest),
                permitted_count=len(known),
            )
        ]
    )
