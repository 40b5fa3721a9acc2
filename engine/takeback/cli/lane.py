"""What is said of a connector: how much goes through it, and whether an outage pauses it."""

from __future__ import annotations

import shlex
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


def unused_document(connector: Connector) -> dict[str, Any]:
    """A connector that no worker has come to yet: nobody has counted what is due."""
    return {
        "connector": connector.name,
        "in_flight": 0,
        "due": None,
        "failures": 0,
        "tokens": None if connector.rate is None else round(connector.tokens_max, 3),
        "paused_since": None,
        "paused_until": None,
        "is_probing": False,
    }


def lane_cells(document: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    """The document in a line."""
    tokens = document["tokens"]
    state = "works"
    if document["paused_until"]:
        state = "probing" if document["is_probing"] else f"paused until {document['paused_until']}"
    return (
        f"  {document['connector']}",
        str(document["in_flight"]),
        "-" if document["due"] is None else str(document["due"]),
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
        f"{next_}; to go on before: `takeback {resume_command(document)}`"
    )


def pause_line(document: Mapping[str, Any]) -> str:
    """Which connector is paused, since when, and when a probe follows."""
    until = f"until {document['paused_until']}"
    probe = "a probe is under way" if document["is_probing"] else until
    return f"connector {document['connector']}: since {document['paused_since']}, {probe}"


def resume_command(document: Mapping[str, Any]) -> str:
    """What ends its pause, behind ``takeback``."""
    return f"connectors resume {shlex.quote(document['connector'])}"
