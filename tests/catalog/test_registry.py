"""What a built catalog answers: its rows, and the schema of each as a model sees it."""

import dataclasses

import pytest
from pydantic import BaseModel, Field

from takeback.catalog.registry import schema
from takeback.model.errors import UnknownTool
from tests.catalog.shop import (
    CLOSE,
    REFUND,
    SEARCH,
    WHOLE,
    registry,
)


def test_a_sound_catalog_is_bound_in_its_order():
    bound = registry(SEARCH, REFUND, CLOSE)
    assert bound.names == ("search_orders", "refund_charge", "update_ticket")
    assert [each.name for each in bound] == list(bound.names)
    assert len(bound) == 3
    assert "update_ticket" in bound
    assert "nothing" not in bound
    assert bound.tool("refund_charge").tool is REFUND
    assert bound.tool("refund_charge").effect is REFUND.effect
    assert bound.tool("refund_charge").handler is WHOLE


def test_an_empty_catalog_is_built():
    assert registry(handlers={}).names == ()


@pytest.mark.parametrize(
    "name, nearest",
    [
        ("refund_charg", ("refund_charge",)),
        ("Refund-Charge", ("refund_charge",)),
        ("serch_order", ("search_orders",)),
        ("make_coffee", ()),
        ("", ()),
        ("x" * 1_000_000, ()),
    ],
)
def test_an_unknown_tool_is_refused_with_the_nearest_names(name, nearest):
    with pytest.raises(UnknownTool) as caught:
        registry(SEARCH, REFUND).tool(name)
    assert tuple(caught.value.nearest) == nearest
    assert all(near in str(caught.value) for near in nearest)


# ── the schema as a model sees it ──


def test_the_schema_is_closed_and_ends_with_the_reserved_arguments():
    document = schema(registry(REFUND).tool("refund_charge"))
    assert list(document["properties"]) == [
        "charge_id",
        "amount",
        "currency",
        "reason",
        "repeat_of",
        "expect",
    ]
    assert document["required"] == ["charge_id", "amount", "currency"]
    assert document["additionalProperties"] is False
    assert document["type"] == "object"
    assert document["properties"]["reason"]["enum"] == ["duplicate", "fraudulent"]
    assert document["properties"]["amount"]["type"] == "integer"


def test_the_schema_of_a_read_has_its_own_arguments_alone():
    assert schema(registry(SEARCH).tool("search_orders")) == {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "what to look for"}},
        "required": ["query"],
        "additionalProperties": False,
    }


def test_the_schema_says_nothing_to_developers():
    text = str(schema(registry(REFUND).tool("refund_charge")))
    assert "developer" not in text
    assert "title" not in text
    for word in ("idempotency", "retry", "queue", "lease", "cursor"):
        assert word not in text


def test_an_argument_may_be_called_title():
    class Line(BaseModel):
        title: str = Field(title="Heading")

    class Titled(BaseModel):
        title: str
        lines: list[Line] = []

    document = schema(registry(dataclasses.replace(SEARCH, arguments=Titled)).tool("search_orders"))
    assert document["properties"]["title"] == {"type": "string"}
    assert document["$defs"]["Line"]["properties"]["title"] == {"type": "string"}
    assert document["$defs"]["Line"]["additionalProperties"] is False


def test_two_schemas_share_nothing_that_could_be_changed():
    bound = registry(CLOSE).tool("update_ticket")
    schema(bound)["properties"]["expect"]["description"] = "changed"
    assert "changed" not in str(schema(bound))
