"""Whether what was recorded is still found by the keys of today: what a deploy would do again.

A call's key changes with its row's recipe, with its arguments' form, and with the key secret. What
no recipe of today leads to is done anew when its call comes again, so an operator is told first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from takeback.client.context import Context
from takeback.client.restore_tool import RESTORE
from takeback.declare import Tool
from takeback.ledger.reading import Entry, list_intents
from takeback.ledger.transaction import Tx
from takeback.model import errors
from takeback.model.arguments import revive
from takeback.model.key import derive_key

LOOKED_AT_MAX = 2000
"""The newest intents are looked at, no more: a look stays quick, and repeats come soon or never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfound:
    """How many of a tool's newest intents no recipe of its row leads to, of how many looked at."""

    tool: str
    intents: int
    looked_at: int


def unfound(context: Context, tx: Tx) -> list[Unfound]:
    """The tools whose newest intents are not found again by the keys of today, by name.

    What is forgotten, or was recorded by a tool that the catalog no longer has, is not looked at.
    """
    looked_at: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for entry in list_intents(tx, context.tenant, limit=LOOKED_AT_MAX):
        name = entry.intent.tool
        if name == RESTORE.name or name not in context.registry:
            continue
        if "arguments" not in entry.bodies:
            continue
        looked_at[name] += 1
        lost[name] += not _is_found(context, context.registry.tool(name).tool, entry)
    return [
        Unfound(tool=name, intents=lost[name], looked_at=count)
        for name, count in sorted(looked_at.items())
        if lost[name]
    ]


def _is_found(context: Context, tool: Tool, entry: Entry) -> bool:
    intent = entry.intent
    if intent.tool_version > tool.version:
        # A later release has recorded it, and knows it.
        return True
    try:
        arguments = revive(tool, intent.tool_version, entry.bodies["arguments"]).canonical
        return intent.key in {
            derive_key(
                tenant=context.tenant,
                tool=tool.name,
                recipe=recipe,
                arguments=arguments,
                run=intent.run,
                repeat_of=intent.repeat_of,
                secret=context.key_secret,
            )
            for recipe in (tool.recipe, *tool.recipe.former)
        }
    except (errors.InvalidArguments, errors.InvalidCatalog, errors.CallerError):
        return False
