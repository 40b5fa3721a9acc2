"""The look-up of a large closed set, at an app whose arguments have some."""

import json
from collections.abc import Iterator
from enum import StrEnum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pydantic import BaseModel

from takeback import Call, Settings, Takeback
from takeback.declare import KEYED, Catalog, Currency, Remote, Tool, hours
from takeback.testing.recovery.country import COUNTRIES

Country = StrEnum("Country", COUNTRIES)  # type: ignore[misc]
if TYPE_CHECKING:
    Code = str
else:
    Code = Literal[tuple(COUNTRIES.values())]


class Parcel(BaseModel):
    country: Country
    currency: Currency
    code: Code | None = None
    via: list[Country] = []
    name: str = "x"
    status: Literal["open", "closed"] = "open"


APP = Catalog(
    Tool(
        "ship",
        Parcel,
        effect=Remote(upstream=KEYED(ttl=hours(1))),
        description="Ships.",
        key=tuple(Parcel.model_fields),
    )
)


@pytest.fixture(scope="module")
def app() -> Iterator[Takeback]:
    """Nothing in here is recorded: the address is nobody's."""
    handlers = SimpleNamespace(ship=lambda arguments, attempt: None)
    settings = Settings(database_url="postgresql://nobody@127.0.0.1:9/nothing")
    app = Takeback(APP, handlers=handlers, settings=settings)
    yield app
    app.close()


def refused(app: Takeback, **arguments: Any) -> dict[str, Any]:
    told = app.call(None, "ship", {"country": "DE", "currency": "EUR"} | arguments).to_dict()
    assert told["status"] == "refused"
    return {one["field"]: one for one in told["error"]["violations"]}


def look_up(app: Takeback, **arguments: Any) -> dict[str, Any]:
    return app.call(None, "permitted_values", arguments).to_dict()


def test_there_are_249_countries_to_look_up():
    assert len(COUNTRIES) == len(set(COUNTRIES.values())) == 249


@pytest.mark.parametrize(
    "field, received", [("country", "Deutschland"), ("code", "Deutschland"), ("currency", "euros")]
)
def test_a_large_set_is_told_as_count_nearest_and_a_ready_look_up(app, field, received):
    """S2.13: a 249-member set is not dumped."""
    violation = refused(app, **{field: received})[field]
    assert len(violation["permitted"]) == 8
    assert violation["permitted_count"] > 150
    assert violation["lookup"] == {
        "tool": "permitted_values",
        "arguments": {"argument": f"ship.{field}", "query": received},
    }
    assert len(json.dumps(violation)) < 700
    answer = app.call(None, **_as_call(violation["lookup"])).to_dict()
    assert answer["status"] == "ok"
    assert len(answer["matches"]) == 8
    assert answer["matches_not_shown"] + 8 == violation["permitted_count"]


def _as_call(ready: dict[str, Any]) -> dict[str, Any]:
    return {"tool": ready["tool"], "arguments": ready["arguments"]}


def test_a_set_of_eight_or_less_needs_no_look_up(app):
    assert "lookup" not in refused(app, status="gone")["status"]


def test_a_missing_argument_with_a_large_set_can_be_looked_up_too(app):
    told = app.call(None, "ship", {"currency": "EUR"}).to_dict()
    (violation,) = told["error"]["violations"]
    assert violation["code"] == "missing"
    assert violation["lookup"]["arguments"] == {"argument": "ship.country", "query": ""}


@pytest.mark.parametrize(
    "query, first",
    [
        ("germany", {"value": "DE", "name": "GERMANY"}),
        ("de", {"value": "DE", "name": "GERMANY"}),
        ("Germny", {"value": "DE", "name": "GERMANY"}),
        ("Korea", {"value": "KR", "name": "KOREA_SOUTH"}),
        ("south korea", {"value": "KR", "name": "KOREA_SOUTH"}),
        ("zealand", {"value": "NZ", "name": "NEW_ZEALAND"}),
    ],
)
def test_the_best_match_is_first_by_value_or_by_name(app, query, first):
    matches = look_up(app, argument="ship.country", query=query)["matches"]
    assert first in matches[:2]


def test_a_country_called_by_its_name_is_mended_without_a_look_up(app):
    violation = refused(app, country="New Zealand")["country"]
    assert (violation["suggestion"], violation["repair"]) == ("NZ", "mechanical")


def test_an_item_of_a_list_is_looked_up_by_its_path(app):
    lookup = refused(app, via=["DE", "Holland"])["via.1"]["lookup"]
    assert lookup["arguments"]["argument"] == "ship.via.1"
    assert app.call(None, **_as_call(lookup)).status == "ok"


@pytest.mark.parametrize("argument", ["ship.name", "ship", "ship.", "", "sail.country", "ship.x.y"])
def test_what_has_no_closed_set_is_refused_with_what_has_one(app, argument):
    told = look_up(app, argument=argument, query="x")
    (violation,) = told["error"]["violations"]
    assert violation["field"] == "argument"
    assert {"ship.country", "ship.currency"} <= set(violation["permitted"])


@pytest.mark.parametrize("query", ["é" * 400, "\U0001f600" * 400, "", " ", "%", "a\0"[:1]])
def test_the_answer_of_a_look_up_is_bounded(app, query):
    """S2.13: bounded tokens, whatever is asked."""
    told = look_up(app, argument="ship.currency", query=query)
    assert told["status"] == "ok"
    assert len(json.dumps(told)) < 2000


def test_arguments_of_the_look_up_itself_are_checked(app):
    told = look_up(app, argumnet="ship.country", query=7)
    assert [one["field"] for one in told["error"]["violations"]] == ["query", "argumnet"]


def test_many_calls_may_hold_a_look_up(app):
    """It needs no database; what is recorded beside it does, so it is asked for alone here."""
    call = Call(tool="permitted_values", arguments={"argument": "ship.country", "query": "peru"})
    told = app.call_many(None, [call])[0].to_dict()
    assert told["status"] in {"ok", "refused"}
