"""``freeze`` and ``thaw``: a person stops what an agent does, and lets it go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeback.cli.calling import Principal
from takeback.cli.consent import is_agreed
from takeback.cli.door import Door, door_of
from takeback.cli.failure import DONE, REFUSED, Failure, Usage
from takeback.cli.freeze import freeze_document, freeze_line
from takeback.cli.sheet import field
from takeback.cli.typed import number_within

if TYPE_CHECKING:
    from takeback.ledger.braking import Holding

RATE_MAX = 1000
REFS_SHOWN_MAX = 20

Reason = Annotated[str, typer.Option(metavar="R", help="Why; it is kept with the freeze.")]
Tool = Annotated[str | None, typer.Option(metavar="T", help="This tool.")]
Run = Annotated[str | None, typer.Option(metavar="R", help="Whatever belongs to this run.")]
Tenant = Annotated[str | None, typer.Option(metavar="N", help="Whatever is this tenant's.")]
All = Annotated[bool, typer.Option("--all", help="Everything, of every tenant.")]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask before --all.")]


def freeze(
    context: typer.Context,
    *,
    reason: Reason,
    tool: Tool = None,
    run: Run = None,
    tenant: Tenant = None,
    everything: All = False,
    yes: Yes = False,
    principal: Principal = None,
) -> int:
    """Stop a tool, a run, a tenant or everything.

    Nothing of it begins after this has answered, in any process, until `thaw`. Remote calls are
    recorded and held, Local ones are refused, and taking back stays open. Says what had begun.
    """
    door = door_of(context)
    scope = _scope(tool=tool, run=run, tenant=tenant, everything=everything)
    if everything:
        _require_sound(door, reason=reason, principal=principal)
        if not is_agreed(door, "Freeze everything, of every tenant?", yes=yes):
            return _declined(door)
    frozen = door.ledger().freeze(reason=reason, principal=door.principal(principal), **scope)
    if door.voice.json_wanted:
        door.voice.document(
            {
                "status": "done",
                "freeze": freeze_document(frozen.freeze),
                "begun": list(frozen.begun),
                "waits_for": [_holding(one) for one in frozen.waits_for],
            }
        )
        return DONE
    begun = list(frozen.begun[:REFS_SHOWN_MAX])
    more = len(frozen.begun) - len(begun)
    door.voice.lines(
        [
            field("frozen", freeze_line(frozen.freeze)),
            field("had begun", ", ".join(begun) + (f" and {more} more" if more else "") or "-"),
            *(
                field(
                    "may begin",
                    f"database process {one.pid} has been in a transaction for "
                    f"{one.age_seconds:.0f} s, and may have begun something before",
                )
                for one in frozen.waits_for
            ),
        ]
    )
    return DONE


def thaw(
    context: typer.Context,
    *,
    reason: Reason,
    tool: Tool = None,
    run: Run = None,
    tenant: Tenant = None,
    everything: All = False,
    yes: Yes = False,
    rate: Annotated[
        int,
        typer.Option(
            metavar="N",
            parser=number_within("--rate", 1, RATE_MAX),
            help="How many overdue intents are released in a second.",
        ),
    ] = 20,
    principal: Principal = None,
) -> int:
    """Let go on what was frozen, without a burst.

    Ends the freezes of exactly this; others stay in force, and are named. What fell due meanwhile
    can be taken back for a moment more, and is then released at the rate.
    """
    door = door_of(context)
    scope = _scope(tool=tool, run=run, tenant=tenant, everything=everything)
    if everything:
        _require_sound(door, reason=reason, principal=principal)
        if not is_agreed(door, "Thaw what was frozen with --all?", yes=yes):
            return _declined(door)
    with door.voice.progress("thaw") as progress:
        thawed = door.app().thaw(
            reason=reason,
            principal=door.principal(principal),
            rate=rate,
            progress=progress,
            **scope,
        )
    if door.voice.json_wanted:
        door.voice.document(
            {
                "status": "done",
                "thawed": [freeze_document(one) for one in thawed.thawed],
                "postponed": thawed.postponed,
                "rate": rate,
                "in_force": [freeze_document(one) for one in thawed.in_force],
            }
        )
        return DONE
    door.voice.lines(
        [
            *(field("thawed", freeze_line(one)) for one in thawed.thawed),
            *([] if thawed.thawed else [field("thawed", "nothing: no freeze has this scope")]),
            field("overdue", f"{thawed.postponed}, released {rate} a second"),
            *(field("still frozen", freeze_line(one)) for one in thawed.in_force),
        ]
    )
    return DONE


def _holding(one: Holding) -> dict[str, Any]:
    return {"pid": one.pid, "age_seconds": round(one.age_seconds, 3)}


def _scope(
    *, tool: str | None, run: str | None, tenant: str | None, everything: bool
) -> dict[str, Any]:
    said = {"tool": tool, "run": run, "tenant": tenant}
    given: Sequence[str] = [name for name, value in said.items() if value is not None]
    if len(given) + everything != 1:
        raise Usage("expected exactly one of: --tool T, --run R, --tenant N, --all")
    empty = [name for name in given if not (said[name] or "").strip()]
    if empty:
        raise Usage(f"--{empty[0]} is empty; expected a name")
    return said | {"everything": everything}


def _require_sound(door: Door, *, reason: str, principal: str | None) -> None:
    """What is refused in any case is refused before anybody is asked."""
    from takeback.client.braking import require_sound
    from takeback.ledger.braking import FreezeScope

    require_sound(FreezeScope(), reason=reason, principal=door.principal(principal))


def _declined(door: Door) -> int:
    return Failure(
        exit=REFUSED, code="declined", class_="terminal", message="nothing was changed"
    ).say(door.voice)
