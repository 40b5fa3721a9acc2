"""What ``doctor`` says of connectors: how much goes through each, and which an outage pauses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from takeback.declare import Connector
    from takeback.ledger.health import LaneHealth


def lane_document(
    found: LaneHealth, connectors: Mapping[str, Connector], now: datetime
) -> dict[str, Any]:
    """A connector as the ledger has it; ``tokens`` is null where the app's row has no rate."""
    from takeback.model.lane import tokens_now
    from takeback.model.moment import iso

    lane = found.lane
    connector = connectors.get(lane.name)
    tokens = None if connector is None else tokens_now(lane, connector, now)
    return {
        "connector": lane.name,
        "in_flight": found.in_flight,
        "due": found.due,
        "failures": lane.failures,
        "tokens": None if tokens is None else round(tokens, 3),
        "paused_since": iso(lane.opened_at) if lane.opened_at else None,
        "paused_until": iso(lane.paused_until) if lane.paused_until else None,
        "is_probing": lane.probe_until is not None and now < lane.probe_until,
    }


def lane_cells(document: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    """The document in a line."""
    tokens = document["tokens"]
    state = "open"
    if document["paused_until"]:
        state = "probing" if document["is_probing"] else f"paused until {document['paused_until']}"
    return (
        f"  {document['connector']}",
        str(document["in_flight"]),
        str(document["due"]),
        "-" if tokens is None else f"{tokens:g}",
        state,
    )


def pause_note(document: Mapping[str, Any]) -> str | None:
    """Why nothing of the connector leaves; None where an outage does not keep it."""
    if not document["paused_until"]:
        return None
    next_ = (
        "a probe is under way"
        if document["is_probing"]
        else f"a probe follows at {document['paused_until']}"
    )
    return (
        f"connector {document['connector']} is paused since {document['paused_since']}: "
        f"{document['failures']} attempts in a row were not answered; {document['due']} due wait, "
        f"{next_}"
    )
