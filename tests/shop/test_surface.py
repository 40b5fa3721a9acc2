"""What a model is shown of the tools: the words of the task, and nothing of the machinery."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from takeback.catalog.registry import Bound, build, schema
from takeback.client.permitted_tool import PERMITTED
from takeback.client.preview_tool import PREVIEW
from takeback.client.restore_tool import RESTORE
from takeback.declare import Read
from takeback_shop import handlers
from takeback_shop.catalog import CATALOG

ROWS = list(build(CATALOG, handlers))
BUILT_IN = [RESTORE, PREVIEW, PERMITTED]

# Words of transport, paging, identifiers and queues, which no task has (S0.1).
MACHINERY = re.compile(
    r"""(?ix) \b (?:
    cursor | page(?:_?size|_?token|_number)? | offset (?!\ from\ UTC) | limit | sort(?:_by)?
    | uuid | ulid | http | get | put | patch | url | endpoint | status_code
    | [45]\d\d (?!\.\d) | idempotency\w* | retry | retries | backoff | queue | lease | attempt
    | worker | sqlstate | provider_?id | api_?key | webhook | json_?rpc
    ) \b"""
)
LOOKUP_ARGUMENTS_MAX = 2


def model_facing(bound: Bound) -> Iterator[str]:
    """The name, the description, and every name and sentence of the schema."""
    yield bound.name
    yield bound.tool.description
    yield from words_in(schema(bound))


def words_in(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "properties":
                yield from value
            if name == "description":
                yield value
            yield from words_in(value)
    elif isinstance(node, list):
        for item in node:
            yield from words_in(item)


@pytest.mark.parametrize("bound", ROWS, ids=lambda bound: bound.name)
def test_a_tool_is_told_in_the_words_of_its_task(bound: Bound):
    """S0.1: no cursor, verb, identifier of a provider, key or knob of a queue."""
    found = {word for text in model_facing(bound) for word in MACHINERY.findall(text)}
    assert found == set()


@pytest.mark.parametrize("tool", BUILT_IN, ids=lambda tool: tool.name)
def test_what_every_app_has_is_told_so_too(tool):
    """S0.1"""
    texts = [tool.name, tool.description, *words_in(tool.arguments.model_json_schema())]
    assert {word for text in texts for word in MACHINERY.findall(text)} == set()


@pytest.mark.parametrize(
    "planted",
    ["the next cursor", "page_size", "HTTP 404", "a UUID", "idempotency_key", "the lease"],
)
def test_a_word_of_the_machinery_would_be_found(planted: str):
    """S0.1"""
    assert MACHINERY.search(planted)


def test_one_concept_has_one_name_on_the_whole_surface():
    """S0.3: the same sentence about an argument means the same argument, and one name one type."""
    meant = defaultdict(set)
    named = defaultdict(set)
    for bound in ROWS:
        for name, field in schema(bound)["properties"].items():
            if "description" in field:
                meant[field["description"].partition(",")[0]].add(name)
            named[name].add(json.dumps({k: field[k] for k in field if k != "description"}))
    assert {sentence: names for sentence, names in meant.items() if len(names) > 1} == {}
    # An argument of one name has one type, wherever it stands.
    ids = {name: types for name, types in named.items() if name.endswith("_id")}
    assert {name: types for name, types in ids.items() if len(types) > 1} == {}


def test_one_capability_is_one_tool():
    """S0.3: no two rows share a description or a trigger."""
    descriptions = [bound.tool.description for bound in ROWS]
    triggers = [trigger for bound in ROWS for trigger in bound.tool.triggers]
    assert len(set(descriptions)) == len(descriptions)
    assert len(set(triggers)) == len(triggers)


@pytest.mark.parametrize(
    "bound", [one for one in ROWS if isinstance(one.effect, Read)], ids=lambda bound: bound.name
)
def test_a_read_takes_the_users_words_and_at_most_where_to_look(bound: Bound):
    """S0.4: two arguments at most; left out means everything."""
    document = schema(bound)
    assert len(document["properties"]) <= LOOKUP_ARGUMENTS_MAX
    assert len(document["required"]) <= 1
    assert "repeat_of" not in document["properties"]


@pytest.mark.parametrize(
    "bound", [one for one in ROWS if not isinstance(one.effect, Read)], ids=lambda one: one.name
)
def test_a_write_takes_what_is_meant_and_the_two_reserved_words(bound: Bound):
    """S0.4, S2.19: nothing asks a caller to confirm its own call."""
    names = list(schema(bound)["properties"])
    assert names[-2:] == ["repeat_of", "expect"]
    assert set(names[:-2]) == set(bound.tool.arguments.model_fields)
    assert set(names).isdisjoint({"confirm", "force", "idempotency_key", "dry_run"})
