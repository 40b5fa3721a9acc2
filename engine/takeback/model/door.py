"""Every way in which an answer leaves: who reads it there, and whether they may have it full.

The list is closed. Code that hands an answer out names its door here, and ``sites`` are the
functions that do; a test reads the sources and fails for one that is not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Reader(StrEnum):
    """Who reads an answer at a door."""

    MODEL = "model"
    OPERATOR = "operator"
    INTERFACE = "interface"


class Door(StrEnum):
    """A way out of the library for answers."""

    CALL = "call"
    CALL_MANY = "call_many"
    RESTORE = "restore"
    PREVIEW = "preview"
    STATUS = "status"
    DECIDE = "decide"
    LIST = "list"
    SHOW = "show"
    INTERFACE = "interface"
    CLI_CALL = "cli_call"
    CLI_CALL_FULL = "cli_call_full"
    CLI_RESTORE = "cli_restore"
    CLI_PREVIEW = "cli_preview"
    CLI_DECIDE = "cli_decide"
    CLI_LIST = "cli_list"
    CLI_SHOW = "cli_show"
    CLI_SHOW_FULL = "cli_show_full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """One door: its reader, the functions that hand an answer out there, and whether it is full.

    ``sites`` are ``module:function``. A door without any is the author's own: what their interface
    shows to people.
    """

    reader: Reader
    sites: tuple[str, ...] = ()
    full: bool = False

    def __post_init__(self) -> None:
        if self.full and self.reader is Reader.MODEL:
            raise ValueError("a model never has the full answer")


_APP = "takeback.app:Takeback"
_DESK = "takeback.desk:Desk"

OPENINGS: Mapping[Door, Opening] = {
    Door.CALL: Opening(reader=Reader.MODEL, sites=(f"{_APP}.call", f"{_APP}.amend")),
    Door.CALL_MANY: Opening(reader=Reader.MODEL, sites=(f"{_APP}.call_many",)),
    Door.RESTORE: Opening(reader=Reader.MODEL, sites=(f"{_APP}.restore",)),
    Door.PREVIEW: Opening(reader=Reader.MODEL, sites=(f"{_APP}.preview",)),
    Door.STATUS: Opening(reader=Reader.MODEL, sites=(f"{_APP}.status",)),
    Door.DECIDE: Opening(
        reader=Reader.OPERATOR,
        sites=tuple(f"{_APP}.{verb}" for verb in ("approve", "deny", "decide", "retry", "resolve")),
    ),
    Door.LIST: Opening(reader=Reader.MODEL, sites=(f"{_DESK}.list",)),
    Door.SHOW: Opening(reader=Reader.OPERATOR, sites=(f"{_DESK}.show",)),
    Door.INTERFACE: Opening(reader=Reader.INTERFACE, full=True),
    Door.CLI_CALL: Opening(reader=Reader.MODEL, sites=("takeback.cli.handing:say_answer",)),
    Door.CLI_CALL_FULL: Opening(
        reader=Reader.OPERATOR, full=True, sites=("takeback.cli.handing:say_answer",)
    ),
    Door.CLI_RESTORE: Opening(reader=Reader.MODEL, sites=("takeback.cli.handing:say_answer",)),
    Door.CLI_PREVIEW: Opening(reader=Reader.MODEL, sites=("takeback.cli.handing:say_answer",)),
    Door.CLI_DECIDE: Opening(reader=Reader.OPERATOR, sites=("takeback.cli.handing:say_answer",)),
    Door.CLI_LIST: Opening(reader=Reader.MODEL, sites=("takeback.cli.handing:say_list",)),
    Door.CLI_SHOW: Opening(reader=Reader.OPERATOR, sites=("takeback.cli.handing:say_intent",)),
    Door.CLI_SHOW_FULL: Opening(
        reader=Reader.OPERATOR, full=True, sites=("takeback.cli.handing:say_intent",)
    ),
}
"""What there is to know of each door."""
