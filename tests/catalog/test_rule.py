"""Every problem of every row is named at once, with its fix."""

import dataclasses
import math
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import uuid4

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel

from takeback.declare import (
    BLIND,
    CONFLICT,
    DIFFERS,
    KEYED,
    LOOKUP,
    RUN,
    Affects,
    Approval,
    Email,
    Key,
    Limit,
    Local,
    Read,
    Remote,
    Wording,
    window,
)
from takeback.declare.tool import Scope, ScopeKind
from takeback.model.handler import Handler
from tests.catalog.shop import (
    CLOSE,
    REFUND,
    SEARCH,
    face,
    problem,
    problems,
    registry,
)


def test_every_problem_of_every_row_is_named_at_once():
    lines = problems(
        dataclasses.replace(REFUND, key=(), version=3),
        dataclasses.replace(CLOSE, name="restore", key=("status", "colour")),
        handlers={"refund_charge": Handler(perform=face), "search": face},
    )
    assert [line.split(":")[0] for line in lines] == [
        "row 'refund_charge'",
        "row 'refund_charge'",
        "row 'refund_charge'",
        "row 'restore'",
        "row 'restore'",
        "row 'restore'",
        "row 'restore'",
        "handler 'search'",
    ]


def test_a_read_that_does_not_say_what_becomes_of_the_forbidden_is_refused():
    """S0.12: a missing declaration fails the build, and names both words."""
    (line,) = problems(dataclasses.replace(SEARCH, effect=Read()))
    assert "it doesn't say what becomes of what the caller may not see" in line
    assert "OMIT" in line and "SAY_NO_ACCESS" in line
    assert len(registry(SEARCH)) == 1


def test_a_write_tool_that_forgot_its_key_is_refused():
    """keeperhub #2207: such a row made every repeat a new call."""
    line = problem(REFUND, key=())
    assert line.startswith("row 'refund_charge': it writes and has no key fields")


@pytest.mark.parametrize(
    "name",
    ["restore", "status", "preview", "list_intents", "search_tools", "permitted_values"],
)
def test_reserved_tool_names_are_refused(name):
    assert "its name is reserved" in problem(SEARCH, name=name)


@pytest.mark.parametrize("name", ["", "Search", "1search", "search-orders", "s" * 64, "sé", "a b"])
def test_a_name_that_is_none_is_refused(name):
    assert "its name is not one" in problem(SEARCH, name=name)


@pytest.mark.parametrize("name", ["repeat_of", "expect", "idempotency_key", "confirm", "force"])
def test_reserved_arguments_are_refused_also_as_aliases(name):
    named = type("Named", (BaseModel,), {"__annotations__": {name: str}})
    aliased = type(
        "Aliased",
        (BaseModel,),
        {"__annotations__": {"x": str}, "x": Field(alias=name)},
    )
    for model in (named, aliased):
        assert f"argument {name!r} is reserved" in problem(SEARCH, arguments=model)


@pytest.mark.parametrize(
    "tool, change, found",
    [
        (REFUND, {"key": ("charge", "amount")}, "key field 'charge' is no argument"),
        (REFUND, {"key": "charge_id"}, "its key is the text 'charge_id', not a tuple"),
        (REFUND, {"key": Key("charge_id")}, "its key is the text 'charge_id', not a tuple"),  # type: ignore[arg-type]
        (
            REFUND,
            {"key": Key(("charge_id",), scope=window(timedelta(0)))},
            "the window of its key has no length",
        ),
        (
            REFUND,
            {"key": Key(("charge_id",), scope=Scope(kind=ScopeKind.WINDOW))},
            "the window of its key has no length",
        ),
        (REFUND, {"on_difference": None}, "nothing says what a repeat with another reason is told"),
        (REFUND, {"on_difference": {}}, "nothing says what a repeat with another reason is told"),
        (
            REFUND,
            {"on_difference": {"reason": DIFFERS, "amount": CONFLICT}},
            "on_difference names 'amount', which is no argument outside the key",
        ),
        (REFUND, {"effect": Remote()}, "it doesn't say how its provider treats a repeat"),
        (REFUND, {"effect": Remote(upstream=KEYED)}, "how long the provider keeps a key"),  # type: ignore[arg-type]
        (REFUND, {"effect": Remote(upstream=5)}, "its upstream is none"),  # type: ignore[arg-type]
        (REFUND, {"effect": None}, "its effect is none"),
        (
            REFUND,
            {"effect": Remote(upstream=KEYED(ttl=timedelta(0)))},
            "its provider's keys live no time at all",
        ),
        (
            REFUND,
            {"effect": Remote(upstream=BLIND, window=timedelta(seconds=-1))},
            "its window is negative",
        ),
        (REFUND, {"effect": Remote(upstream=BLIND, guard_s=5)}, "its guard_s is 5"),
        (REFUND, {"effect": Remote(upstream=BLIND, connector="")}, "its connector is ''"),
        (REFUND, {"effect": Remote(upstream=BLIND, connector="My Bank")}, "its connector is 'My B"),
        (REFUND, {"effect": Remote(upstream=BLIND, order_by="owner")}, "is ordered by 'owner'"),
        (REFUND, {"effect": Remote(upstream=BLIND, priority=1)}, "its priority is 1"),  # type: ignore[arg-type]
        (REFUND, {"effect": Remote(upstream=BLIND, guard_s=math.nan)}, "its guard_s is nan"),
        (
            REFUND,
            {"effect": Remote(upstream=BLIND, attempt_seconds_max=math.nan)},
            "its attempt_seconds_max is nan",
        ),
        (
            REFUND,
            {"effect": Remote(upstream=BLIND, window=timedelta(days=40_000))},
            "its window is longer than a century",
        ),
        (
            REFUND,
            {"effect": Remote(upstream=KEYED(ttl=timedelta.max))},
            "its provider's keys live longer than a century",
        ),
        (
            CLOSE,
            {"effect": Local(retention=timedelta.max)},
            "its retention is longer than a century",
        ),
        (
            REFUND,
            {"effect": Remote(upstream=BLIND, attempt_seconds_max=0)},
            "its attempt_seconds_max is 0",
        ),
        (REFUND, {"effect": Remote(upstream=BLIND, attempts_max=0)}, "its attempts_max is 0"),
        (
            REFUND,
            {"effect": Remote(upstream=BLIND, retry_first_seconds=0)},
            "its retry_first_seconds is 0",
        ),
        (
            REFUND,
            {"effect": Remote(upstream=BLIND, retry_first_seconds=9, retry_seconds_max=8)},
            "its retry_first_seconds is 9 and its retry_seconds_max 8",
        ),
        (CLOSE, {"effect": Local(retention=timedelta(0))}, "its retention is not positive"),
        (CLOSE, {"effect": Local(quiet=timedelta(-1))}, "its quiet time is negative"),
        (CLOSE, {"version": 0}, "its version is 0"),
        (CLOSE, {"version": 3, "upgrades": {1: dict}}, "no upgrade from 2 to 3"),
        (CLOSE, {"version": 3}, "no upgrade from 1 to 2, 2 to 3"),
        (CLOSE, {"upgrades": {1: dict}}, "it upgrades from version 1, and its own version is 1"),
        (REFUND, {"approval": Approval(argument="sum", over=1)}, "looks at 'sum', which is no arg"),
        (REFUND, {"approval": Approval(argument="reason", over=1)}, "which is no whole number"),
        (REFUND, {"approval": Approval(over=1)}, "its approval has a bound and no argument"),
        (REFUND, {"limits": (Limit(),)}, "a limit of it bounds nothing"),
        (REFUND, {"limits": (Limit(count=-1),)}, "has count=-1, which is no bound"),
        (REFUND, {"limits": (Limit(rows=True),)}, "has rows=True, which is no bound"),
        (REFUND, {"limits": (Limit(count=1, per=timedelta(0)),)}, "has a time that is none"),
        (REFUND, {"limits": (Limit(count=1, currency="EUR"),)}, "and bounds no money"),
        (REFUND, {"limits": (Limit(money=1, currency="EURO"),)}, "'EURO', which is no currency"),
        (REFUND, {"limits": (Limit(money=1),)}, "names no currency, and its calls may come in"),
        (
            REFUND,
            {"limits": (Limit(money=1, currency="EUR", argument="sum"),)},
            "adds up 'sum', which is no argument",
        ),
        (
            REFUND,
            {"limits": (Limit(money=1, currency="EUR", argument="reason"),)},
            "adds up 'reason', which is no whole number",
        ),
        (REFUND, {"limits": (Limit(count=1, strict=True),)}, "says something of Local effects"),
        (REFUND, {"limits": (Limit(count=1, scope=cast(Any, "all")),)}, "a scope, or an over"),
        (SEARCH, {"limits": (Limit(count=1),)}, "it has limits, and only reads"),
        (
            REFUND,
            {"key": Key(("charge_id",), version=2, former=(Key(("amount",), version=2),))},
            "two recipes of its key have version 2",
        ),
        (
            REFUND,
            {"key": Key(("charge_id",), version=2, former=(Key(("was",)),))},
            "in its former recipe of version 1 key field 'was' is no argument",
        ),
        (
            REFUND,
            {
                "key": Key(
                    ("charge_id",),
                    version=3,
                    former=(Key(("amount",), version=2, former=(Key(("currency",)),)),),
                )
            },
            "its former recipe of version 2 has former ones of its own",
        ),
        (
            REFUND,
            {"approval": Approval(argument="amount")},
            "its approval looks at an argument and has no bound",
        ),
        (REFUND, {"approval": Approval(rows_over=-1)}, "its approval's rows_over is -1"),
        (REFUND, {"approval": Approval(expires=timedelta(0))}, "its approval expires at once"),
        (REFUND, {"affects": Affects(kind="x", id="id")}, "identified by 'id', which is no arg"),
        (REFUND, {"wording": Wording(subject="{amout}")}, "fills in 'amout', which is no argument"),
        (REFUND, {"wording": Wording(subject="{}")}, "fills in '', which is no argument"),
        (REFUND, {"wording": Wording(subject="{amount.x}")}, "fills in 'amount.x'"),
        (REFUND, {"wording": Wording(subject="x", leaves=("{y}",))}, "fills in 'y'"),
        (REFUND, {"wording": Wording(subject="{amount")}, "has an unpaired brace"),
        (REFUND, {"wording": Wording(subject="{amount:>{amount}}")}, "in a form that is none"),
        (REFUND, {"wording": Wording(subject="{amount!x}")}, "in a form that is none"),
        (SEARCH, {"arguments": dict}, "its arguments are no pydantic model"),
        (SEARCH, {"arguments": RootModel[list[int]]}, "its arguments have no names"),
    ],
)
def test_a_row_that_cannot_be_run_is_refused_with_its_fix(tool, change, found):
    assert found in problem(tool, **change)


def test_a_float_is_no_key_field():
    class Sized(BaseModel):
        size: float
        sizes: list[float] = []

    tool = dataclasses.replace(CLOSE, arguments=Sized, key=("size", "sizes"))
    assert ["float" in line for line in problems(tool)] == [True, True]


def test_an_argument_without_a_form_in_json_is_refused():
    class Raw(BaseModel):
        raw: bytes
        rows: list[dict[str, bytes]] = []

    lines = problems(dataclasses.replace(SEARCH, arguments=Raw))
    assert ["is bytes" in line for line in lines] == [True, True]


def test_a_model_without_a_schema_is_refused():
    class Unfinished(BaseModel):
        x: "Missing"  # type: ignore[name-defined]  # noqa: F821

    class Thing: ...

    class Opaque(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        thing: Thing

    for model in (Unfinished, Opaque):
        assert "have no JSON schema" in problem(SEARCH, arguments=model)


def test_a_default_made_anew_by_every_call_is_refused():
    """flexprice #2488: a timestamp among the arguments makes every retry another call."""

    class Line(BaseModel):
        id: str = Field(default_factory=lambda: uuid4().hex)

    class Stamped(BaseModel):
        at: datetime = Field(default_factory=datetime.now)
        lines: list[Line] = Field(default_factory=list)

    lines = problems(dataclasses.replace(SEARCH, arguments=Stamped))
    assert ["default of argument 'at'" in line for line in lines] == [True, False]
    assert "default of argument 'lines'" in lines[1]


def test_a_default_in_another_spelling_than_its_own_is_refused():
    class Sender(BaseModel):
        sender: Email = "Dana@Example.com"

    line = problem(SEARCH, arguments=Sender)
    assert line.endswith("fix: write it as 'dana@example.com'")


def test_a_default_without_a_form_is_refused():
    class Late(BaseModel):
        at: datetime = datetime.fromisoformat("2026-11-29T14:05:10")
        ratio: float = float("nan")

    assert len(problems(dataclasses.replace(SEARCH, arguments=Late))) == 2


def test_a_default_may_stand_for_nothing_given():
    class Loose(BaseModel):
        note: str = None  # type: ignore[assignment]
        ratio: float = 1.0
        tags: list[str] = Field(default_factory=list)

    assert len(registry(dataclasses.replace(SEARCH, arguments=Loose))) == 1


@pytest.mark.parametrize(
    "tool, faces, missing",
    [
        (CLOSE, {}, "restore"),
        (REFUND, {}, "restore"),
        (dataclasses.replace(REFUND, effect=Remote(upstream=LOOKUP)), {}, "find"),
        (dataclasses.replace(REFUND, effect=Remote(upstream=LOOKUP)), {"restore": face}, "find"),
    ],
)
def test_a_face_that_the_effect_needs_is_asked_for(tool, faces, missing):
    (line,) = problems(tool, handlers={tool.name: Handler(perform=face, **faces)})
    assert line.endswith(f"fix: add {missing} to the handler")


@pytest.mark.parametrize(
    "tool",
    [
        SEARCH,
        dataclasses.replace(REFUND, effect=Remote(upstream=BLIND)),
        dataclasses.replace(
            REFUND, effect=Remote(upstream=BLIND), on_difference={"reason": DIFFERS}
        ),
        dataclasses.replace(
            REFUND, effect=Remote(upstream=BLIND), key=Key(("charge_id",), scope=RUN)
        ),
        dataclasses.replace(SEARCH, version=2, upgrades={1: dict}),
        dataclasses.replace(SEARCH, wording=Wording(subject="{{x}} {query!r:>5}")),
    ],
)
def test_nothing_is_asked_for_that_the_row_does_not_need(tool):
    assert len(registry(tool, handlers={tool.name: face})) == 1
