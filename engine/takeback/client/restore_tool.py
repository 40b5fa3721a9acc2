"""The row of the one tool that every app has: ``restore``. Its key is the ref, for ever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field

from takeback.declare import GATED, STAGING, Affects, Local, Tool, Wording
from takeback.model.key import canonical_bytes


class Restore(BaseModel):
    """Which intent to take back."""

    ref: str = Field(description="the ref of the call that is taken back")


RESTORE = Tool(
    "restore",
    Restore,
    effect=Local(),
    description="Takes back what an earlier call did or is about to do.",
    key=("ref",),
    tier=GATED,
    inline=True,
    exposure=STAGING,
    triggers=("undo", "unsend", "take back", "restore"),
    affects=Affects(kind="intent", id="ref"),
    wording=Wording(
        subject="Taking back {ref}",
        scheduled="is carried out at {until}",
        done="is done",
        taken_back="was itself taken back",
        undo="does it anew",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreArguments:
    """The canonical arguments of a restore, and their stored form."""

    canonical: dict[str, Any]
    body: str


def restore_arguments(ref: str) -> RestoreArguments:
    """The arguments of a restore of ``ref``.

    >>> restore_arguments("t-00000000").body
    '{"ref":"t-00000000"}'
    """
    canonical = {"ref": ref}
    return RestoreArguments(canonical=canonical, body=canonical_bytes(canonical).decode())
