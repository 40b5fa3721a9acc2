"""The rows of connectors are checked with those of tools, and a name that leads nowhere is told."""

import dataclasses
import math
from datetime import timedelta
from typing import Any

import pytest

from takeback.catalog.check import check_source
from takeback.catalog.registry import Registry, build
from takeback.declare import Breaker, Catalog, Connector, Remote, Tool, minutes, seconds
from takeback.model.errors import InvalidCatalog
from tests.catalog.shop import CLOSE, REFUND, WHOLE


def through(connector: str | None) -> Tool:
    assert isinstance(REFUND.effect, Remote)
    effect = dataclasses.replace(REFUND.effect, connector=connector)
    return dataclasses.replace(REFUND, effect=effect)


def built(tool: Tool, *connectors: Connector) -> Registry:
    catalog = Catalog(tool, CLOSE, connectors=connectors)
    return build(catalog, {tool.name: WHOLE for tool in catalog})


def refused(tool: Tool, *connectors: Connector) -> str:
    with pytest.raises(InvalidCatalog) as caught:
        built(tool, *connectors)
    (line,) = str(caught.value).splitlines()
    assert "; fix: " in line
    return line


def test_a_connector_bounds_the_tools_that_name_it():
    stripe = Connector("stripe", concurrency=4, rate=25.0)
    assert built(through("stripe"), stripe).connectors == {"stripe": stripe}


def test_without_any_connectors_a_tool_may_name_what_it_likes():
    assert built(through("stripe")).connectors == {}


def test_a_tool_that_names_none_of_the_connectors_is_refused_with_the_nearest():
    line = _lines(through("strype"), Connector("stripe"))[-1]
    assert line.startswith("row 'refund_charge': its connector 'strype' is none of the catalog's")
    assert "write 'stripe'" in line and "Connector('strype'" in line


def _lines(tool: Tool, *connectors: Connector) -> list[str]:
    with pytest.raises(InvalidCatalog) as caught:
        built(tool, *connectors)
    return str(caught.value).splitlines()


def test_a_connector_that_no_tool_goes_through_is_refused():
    assert refused(through(None), Connector("stripe")).startswith(
        "connector 'stripe': no tool goes through it"
    )


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"concurrency": 0}, "its concurrency is 0"),
        ({"concurrency": True}, "its concurrency is True"),
        ({"concurrency": 2.5}, "its concurrency is 2.5"),
        ({"rate": 0}, "its rate is 0"),
        ({"rate": -1.0}, "its rate is -1.0"),
        ({"rate": math.nan}, "its rate is nan"),
        ({"rate": "25/s"}, "its rate is '25/s'"),
        ({"rate": 1.0, "burst": 0}, "its burst is 0"),
        ({"burst": 5}, "it has a burst and no rate"),
        ({"breaker": True}, "its breaker is none"),
        ({"breaker": Breaker(failures=0)}, "its breaker opens after 0 failures"),
        ({"breaker": Breaker(pause=timedelta(0))}, "its breaker has a pause that is none"),
        (
            {"breaker": Breaker(pause=minutes(1), pause_max=seconds(5))},
            "its breaker's pause_max is none, or less than its pause",
        ),
    ],
)
def test_a_connector_that_says_what_can_not_be_is_refused(said: dict[str, Any], what: str):
    line = refused(through("stripe"), Connector("stripe", **said))
    assert line.startswith(f"connector 'stripe': {what}")


def test_a_name_that_is_none_and_two_of_one_name_are_refused():
    assert "its name is not one" in _lines(through(None), Connector("Stripe!"))[0]
    with pytest.raises(ValueError, match="two rows are named 'stripe'"):
        Catalog(connectors=(Connector("stripe"), Connector("stripe", rate=1.0)))


def test_connectors_are_read_as_text_like_the_rest_of_a_declaration():
    text = (
        "from takeback.declare import Breaker, Catalog, Connector, seconds\n"
        "CATALOG = Catalog(connectors=(Connector('a', rate=2.0, breaker=Breaker(failures=3)),))\n"
    )
    assert check_source(text) == []
