"""Across a deploy: what one release recorded, the next repeats, takes back and does anew."""

import pytest
from pydantic import BaseModel

from takeback import Handler, Settings, Takeback
from takeback.declare import CONFLICT, Catalog, Local, Text, Tool


class Earlier(BaseModel):
    """The arguments before the deploy."""

    page: Text
    remark: Text = ""


class Later(BaseModel):
    """The arguments after it: the remark is called a note, and is written in capitals."""

    page: Text
    note: Text = ""
    colour: Text = "white"


def renamed(held):
    return {"page": held["page"], "note": held["remark"].upper()}


def release(desk, model, *, handed, **more):
    tool = Tool(
        "print_page",
        model,
        effect=Local(),
        description="Prints.",
        key=("page",),
        on_difference=CONFLICT,
        **more,
    )
    handler = Handler(
        perform=lambda session, arguments: handed.append(arguments),
        restore=lambda session, original: handed.append(original.arguments),
    )
    return Takeback(
        Catalog(tool),
        handlers={"print_page": handler},
        settings=Settings(database_url=desk.url),
    )


@pytest.fixture
def handed():
    """What the handlers were handed, in order."""
    return []


@pytest.fixture
def earlier(desk, handed):
    app = release(desk, Earlier, handed=handed)
    yield app
    app.close()


@pytest.fixture
def later(desk, handed):
    app = release(desk, Later, handed=handed, version=2, upgrades={1: renamed})
    yield app
    app.close()


def test_a_retry_after_the_deploy_is_still_a_retry(earlier, later):
    first = earlier.call(None, "print_page", {"page": "p1", "remark": "red"})
    again = later.call(None, "print_page", {"page": "p1", "note": "RED"})
    assert (again.ref, again["replayed"]) == (first.ref, True)


def test_a_difference_after_the_deploy_is_told_in_the_words_of_the_later_release(earlier, later):
    earlier.call(None, "print_page", {"page": "p1", "remark": "red"})
    told = later.call(None, "print_page", {"page": "p1", "note": "blue"})
    assert told.code == "key_conflict"
    (violation,) = told.error["violations"]
    assert (violation["field"], violation["first"], violation["received"]) == (
        "note",
        "RED",
        "blue",
    )


def test_a_restore_after_the_deploy_is_handed_the_upgraded_arguments(earlier, later, handed):
    first = earlier.call(None, "print_page", {"page": "p1", "remark": "red"})
    assert later.restore(None, first.ref).status == "done"
    assert handed[-1] == Later(page="p1", note="RED", colour="white")


def test_what_is_done_anew_after_the_deploy_is_done_in_the_later_form(earlier, later, handed):
    first = earlier.call(None, "print_page", {"page": "p1", "remark": "red"})
    restored = later.restore(None, first.ref)
    redone = later.restore(None, restored.ref)
    assert redone.status == "done"
    assert handed[-1] == Later(page="p1", note="RED", colour="white")
    intent = later.show(redone["redone"]["ref"]).entry.intent
    assert intent.tool_version == 2


def test_once_more_on_purpose_is_possible_across_the_deploy(earlier, later):
    first = earlier.call(None, "print_page", {"page": "p1", "remark": "red"})
    other = earlier.call(None, "print_page", {"page": "p2"})
    again = later.call(None, "print_page", {"page": "p1"}, repeat_of=first.ref)
    assert again.status == "done"
    assert again.ref != first.ref
    told = later.call(None, "print_page", {"page": "p1"}, repeat_of=other.ref)
    assert told.code == "invalid_argument"


def test_the_earlier_release_repeats_what_the_later_one_recorded(earlier, later, handed):
    """Both run for a while: what can't be read back is not taken for another call."""
    first = later.call(None, "print_page", {"page": "p1", "note": "RED"})
    again = earlier.call(None, "print_page", {"page": "p1", "remark": "red"})
    assert (again.ref, again["replayed"]) == (first.ref, True)
    assert len(handed) == 1
    assert earlier.restore(None, first.ref).code == "not_restorable"
    assert later.restore(None, first.ref).status == "done"
