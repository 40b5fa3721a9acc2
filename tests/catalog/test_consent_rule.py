"""No catalog asks a caller to confirm its own call."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, Field, create_model

from takeback.catalog.consent_rule import is_consent, name_problems
from takeback.catalog.registry import schema
from takeback.client.permitted_tool import PERMITTED
from takeback.client.preview_tool import PREVIEW
from takeback.client.restore_tool import RESTORE
from takeback.declare import Local, Tool
from takeback_shop.app import app
from takeback_shop.catalog import CATALOG


def row(arguments: type[BaseModel]) -> Tool:
    return Tool("t", arguments, effect=Local(), description="T.", key=("x",))


def found(arguments: type[BaseModel]) -> list[str]:
    return [problem for problem, _ in name_problems(row(arguments))]


def flat(name: str) -> type[BaseModel]:
    fields: dict[str, Any] = {name: (bool, False)}
    return create_model("Arguments", x=(str, ...), **fields)


@pytest.mark.parametrize(
    "name",
    [
        *("confirm", "CONFIRM", "confirm_delete", "type_to_confirm", "confirmName", "confirmed"),
        *("is_confirmed", "userConfirmed", "confirmation", "user_confirmation", "are_you_sure"),
        *("areYouSure", "i_am_sure", "sure", "ｃｏｎｆｉｒｍ"),
        *("force", "Force", "forced", "expect", "repeat_of", "repeatOf", "idempotencyKey"),
    ],
)
def test_an_argument_that_agrees_with_itself_is_refused_in_any_spelling(name: str):
    """S2.19: the same generation has the same belief."""
    (problem,) = found(flat(name))
    assert "reserved" in problem or "proves nothing" in problem


@pytest.mark.parametrize(
    "name",
    [
        "confirmation_number",
        "confirmed_at",
        "measure",
        "insured",
        "enforce",
        "expected",
        "reinforce",
    ],
)
def test_an_argument_that_is_about_the_world_is_none(name: str):
    assert found(flat(name)) == []


class Inner(BaseModel):
    confirm: bool = False


class Other(BaseModel):
    kind: Literal["other"]
    are_you_sure: bool


class Plain(BaseModel):
    kind: Literal["plain"]
    amount: int


class Nested(BaseModel):
    x: str
    lines: list[Inner] = []


class Choice(BaseModel):
    x: str
    one: Annotated[Other | Plain, Field(discriminator="kind")]


class Mapped(BaseModel):
    x: str
    by_name: dict[str, Inner] = {}


class Aliased(BaseModel):
    x: str
    ok: bool = Field(default=False, validation_alias="confirm")


class Choices(BaseModel):
    x: str
    ok: Annotated[
        bool, Field(validation_alias=AliasChoices("fine", "confirmed", AliasPath("a", 0)))
    ] = False


class Tree(BaseModel):
    x: str
    force: int = 0
    below: list["Tree"] = []


@pytest.mark.parametrize("arguments", [Nested, Choice, Mapped, Aliased, Choices, Tree])
def test_one_within_another_or_under_an_alias_is_found_too(arguments: type[BaseModel]):
    """S2.19: at any depth."""
    arguments.model_rebuild()
    assert len(found(arguments)) == 1


def test_no_tool_that_a_model_can_reach_has_such_an_argument():
    """S2.19: neither `confirm: true` nor "type the target's name" exists in any schema."""
    for tool in (*CATALOG, RESTORE, PREVIEW, PERMITTED):
        assert list(name_problems(tool)) == [], tool.name
    for bound in app.registry:
        for name in properties(schema(bound)):
            assert not is_consent(name), f"{bound.name}.{name}"


def properties(node: Any) -> set[str]:
    names: set[str] = set()
    if isinstance(node, dict):
        names |= set(node.get("properties", {}))
        for value in node.values():
            names |= properties(value)
    elif isinstance(node, list):
        for value in node:
            names |= properties(value)
    return names
