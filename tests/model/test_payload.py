"""The full answer shows nothing of itself by accident, and all at a door that may have it."""

import copy
import dataclasses
import json
import pickle
import pprint
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter

from takeback import Door, Envelope
from takeback.model.door import OPENINGS, Opening, Reader
from takeback.model.payload import Full

SECRET = "card 4242"
FULL = Full("pay-00000000", {"bodies": {"result": SECRET}, "at": datetime(2026, 1, 1, tzinfo=UTC)})
ANSWER = Envelope({"status": "done", "ref": "pay-00000000"}, FULL)


@dataclasses.dataclass
class Holder:
    """Somebody's own class that has come by one."""

    full: Any


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True, from_attributes=True)
    full: Full


WAYS: dict[str, Callable[[Any], Any]] = {
    "str": str,
    "repr": repr,
    "format": lambda full: f"{full!s} {full!r} {full:}",
    "percent": lambda full: "%s %r" % (full, full),  # noqa: UP031
    "pprint": pprint.pformat,
    "json": json.dumps,
    "json_str": lambda full: json.dumps(full, default=str),
    "json_repr": lambda full: json.dumps([full], default=repr),
    "json_vars": lambda full: json.dumps(full, default=vars),
    "json_slots": lambda full: json.dumps(
        full, default=lambda one: {name: getattr(one, name) for name in one.__slots__}
    ),
    "json_dict": lambda full: json.dumps(full, default=lambda one: one.__dict__),
    "json_list": lambda full: json.dumps(full, default=list),
    "dict": dict,
    "list": list,
    "splat": lambda full: dict(**full),
    "index": lambda full: full["bodies"],
    "contains": lambda full: "bodies" in full,
    "vars": vars,
    "asdict": dataclasses.asdict,
    "asdict_of_a_holder": lambda full: repr(dataclasses.asdict(Holder(full))),
    "pickle": pickle.dumps,
    "pickle_of_a_holder": lambda full: pickle.dumps(Holder(full)),
    "copy": lambda full: repr(copy.copy(full)),
    "deepcopy": lambda full: repr(copy.deepcopy(full)),
    "pydantic": lambda full: TypeAdapter(Any).dump_json(full),
    "pydantic_fallback": lambda full: TypeAdapter(Any).dump_json(full, fallback=str),
    "pydantic_unknown": lambda full: Model(full=full).model_dump_json(fallback=repr),
    "pydantic_python": lambda full: repr(Model(full=full).model_dump()),
    "json_of_an_answer": lambda _: ANSWER.to_json(),
    "dict_of_an_answer": lambda _: repr(ANSWER.to_dict()),
    "repr_of_an_answer": lambda _: f"{ANSWER!r} {dict(ANSWER)}",
    "pickle_of_an_answer": lambda _: pickle.dumps(ANSWER),
    "pydantic_of_an_answer": lambda _: TypeAdapter(Any).dump_json(ANSWER, fallback=dict),
}


@pytest.mark.parametrize("way", list(WAYS))
def test_no_way_that_serialises_finds_what_is_in_it(way: str):
    """S3.4: serialising a stored full result is impossible by type."""
    try:
        said = WAYS[way](FULL)
    except (TypeError, AttributeError, ValueError) as problem:
        said = str(problem)
    assert SECRET not in (said.decode("latin1") if isinstance(said, bytes) else str(said))


def test_a_test_of_a_leak_would_find_one():
    leaky = Holder(SECRET)
    assert SECRET in json.dumps(leaky, default=vars)


def test_a_pickled_answer_comes_back_lean():
    again = pickle.loads(pickle.dumps(ANSWER))
    assert again.to_json() == ANSWER.to_json()
    assert SECRET not in json.dumps(again.full.disclose(Door.INTERFACE))


def test_a_copied_answer_keeps_its_full_one():
    for twin in (copy.copy(ANSWER), copy.deepcopy(ANSWER), ANSWER.amended({"x": 1})):
        assert twin.full is FULL


@pytest.mark.parametrize("door", list(Door))
def test_everything_leaves_at_the_doors_of_people_alone(door: Door):
    """S3.1: a model never sees the full payload, an interface never has the lean one alone."""
    opening = OPENINGS[door]
    if opening.full:
        assert opening.reader in (Reader.OPERATOR, Reader.INTERFACE)
        assert FULL.disclose(door) == {"bodies": {"result": SECRET}, "at": "2026-01-01T00:00:00Z"}
    else:
        with pytest.raises(TypeError, match="lean answers only"):
            FULL.disclose(door)


@pytest.mark.parametrize("none", ["cli_show_full", None, "mcp", object()])
def test_what_is_no_door_gets_nothing(none: Any):
    """S3.4: without a registered door it fails closed."""
    with pytest.raises(TypeError, match="is no door"):
        FULL.disclose(none)


def test_no_door_of_a_model_can_be_declared_full():
    with pytest.raises(ValueError, match="never has the full answer"):
        Opening(reader=Reader.MODEL, full=True)


def test_what_is_disclosed_is_a_copy():
    FULL.disclose(Door.INTERFACE)["bodies"]["result"] = "changed"
    assert FULL.disclose(Door.INTERFACE)["bodies"]["result"] == SECRET


def test_an_answer_without_a_full_one_has_no_more_than_itself():
    lean = Envelope({"status": "refused", "trace_id": "0f"})
    assert lean.full.disclose(Door.INTERFACE) == lean.to_dict()
