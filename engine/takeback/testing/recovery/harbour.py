"""A harbour office with forty tools, whose names and arguments are much alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, StringConstraints, create_model

from takeback.declare import OMIT, SILENT, Catalog, Currency, Instant, Money, Read, Tool
from takeback.testing.recovery.subject import Subject, handlers_for, row

ShipId = Annotated[str, StringConstraints(pattern=r"^IMO[0-9]{7}$")]

# What may be done, to what, and which argument says how.
VERBS = ("assign", "cancel", "inspect", "release", "report")
THINGS: Mapping[str, tuple[str, Any, str]] = {
    "berth": ("quay", Literal["east_quay", "west_quay", "oil_pier"], "west_quay"),
    "container": ("load", Literal["dry_goods", "reefer", "hazardous"], "reefer"),
    "crane": ("size", Literal["light", "medium", "heavy_lift"], "heavy_lift"),
    "pilot": ("licence", Literal["coastal", "river", "deep_sea"], "deep_sea"),
    "tugboat": ("power", Literal["single_screw", "twin_screw", "azimuth"], "twin_screw"),
    "customs_hold": ("reason", Literal["missing_papers", "random_check", "tip_off"], "tip_off"),
    "fuel_order": ("grade", Literal["marine_gas_oil", "heavy_fuel_oil", "lng"], "marine_gas_oil"),
    "waste_pickup": ("kind", Literal["oily_water", "household", "plastics"], "oily_water"),
}


def _arguments(verb: str, thing: str) -> tuple[type[BaseModel], dict[str, Any]]:
    """The argument model of one tool, and the arguments that are wanted of it."""
    name, values, wanted = THINGS[thing]
    fields: dict[str, Any] = {"ship_id": (ShipId, ...), name: (values, ...)}
    call: dict[str, Any] = {"ship_id": "IMO9321483", name: wanted}
    if verb in {"assign", "report"}:
        fields["planned_for"] = (Instant, ...)
        call["planned_for"] = "2026-12-24T05:45:00Z"
    if verb == "cancel":
        fields |= {"fee": (Money, ...), "currency": (Currency, ...)}
        call |= {"fee": 25000, "currency": "NOK"}
    title = "".join(part.title() for part in f"{verb}_{thing}".split("_"))
    return create_model(title, **fields), call


def _row(verb: str, thing: str) -> Tool:
    said: dict[str, Any] = (
        {"effect": Read(on_forbidden=OMIT), "tier": SILENT} if verb == "inspect" else {}
    )
    described = f"{verb.title()}s a {thing.replace('_', ' ')}."
    return row(f"{verb}_{thing}", _arguments(verb, thing)[0], described, **said)


CATALOG = Catalog(*(_row(verb, thing) for verb in VERBS for thing in THINGS))


def harbour() -> Subject:
    """The harbour, and one call of each of its tools."""
    return Subject(
        name="harbour",
        catalog=CATALOG,
        handlers=handlers_for(CATALOG),
        wanted=tuple(
            (f"{verb}_{thing}", _arguments(verb, thing)[1]) for verb in VERBS for thing in THINGS
        ),
        near={
            "west_quay": ("western dock",),
            "reefer": ("refrigerated",),
            "heavy_lift": ("big",),
            "deep_sea": ("ocean",),
            "twin_screw": ("two propellers",),
            "tip_off": ("informant",),
            "marine_gas_oil": ("diesel",),
            "oily_water": ("bilge",),
        },
        foreign={
            "west_quay": ("Westkai",),
            "reefer": ("Kühlcontainer",),
            "heavy_lift": ("Schwerlast",),
            "deep_sea": ("Hochsee",),
            "tip_off": ("Hinweis",),
            "oily_water": ("Bilgenwasser",),
            "NOK": ("kroner",),
        },
        misnamed={
            f"{verb}_{thing}": (f"{other}_{thing}",)
            for verb, other in zip(VERBS, ("give", "abort", "view", "free", "file"), strict=True)
            for thing in THINGS
        },
    )
