"""``catalog``: the check of the declaration file, and the rows of an app."""

from pathlib import Path

import pytest

from tests.cli.terminal import Terminal

GOOD = "from takeback.declare import Catalog\n\nCATALOG = Catalog()\n"
BAD = "import os\nfrom takeback.declare import Catalog\nimport sqlalchemy\n\nx = open('f')\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "catalog.py"


def test_a_declaration_file_that_only_declares_passes(terminal: Terminal, file: Path):
    file.write_text(GOOD)
    assert terminal("catalog", "check", str(file)).exit == 0
    said = terminal("catalog", "check", str(file), "--json")
    assert said.document == {"status": "done", "file": str(file), "findings": []}


def test_whatever_else_a_declaration_file_does_is_named_by_line(terminal: Terminal, file: Path):
    file.write_text(BAD)
    said = terminal("catalog", "check", str(file))
    assert said.exit == 1
    assert [line.split(": ")[0] for line in said.out.splitlines()] == [f"{file}:3", f"{file}:5"]
    document = terminal("--json", "catalog", "check", str(file))
    assert (document.exit, document.code) == (1, "failed_check")
    assert [one["line"] for one in document.document["findings"]] == [3, 5]


def test_the_file_is_read_and_never_run(terminal: Terminal, file: Path, tmp_path: Path):
    trace = tmp_path / "ran"
    file.write_text(f"open({str(trace)!r}, 'w')\n")
    assert terminal("catalog", "check", str(file)).exit == 1
    assert not trace.exists()


def test_the_rows_are_listed_in_the_order_of_the_catalog(kiosk: Terminal):
    said = kiosk("catalog", "list", "--json")
    assert said.exit == 0
    assert [row["tool"] for row in said.document] == [
        "paint",
        "post",
        "ring",
        "give",
        "note_down",
        "jam",
        "seek",
    ]
    people = kiosk("catalog", "list")
    assert people.exit == 0
    assert people.out.splitlines()[1].split()[:4] == ["paint", "local", "gated", "staging"]


def test_a_row_is_shown_with_the_schema_that_a_model_sees(kiosk: Terminal):
    said = kiosk("catalog", "show", "paint", "--json")
    assert said.exit == 0
    assert list(said.document["schema"]["properties"]) == ["wall", "colour", "repeat_of", "expect"]
    assert said.document["key"] == ["wall", "colour"]
    assert '"additionalProperties": false' in kiosk("catalog", "show", "paint").out
    assert "\n  window_seconds " in kiosk("catalog", "show", "post").out


def test_a_row_that_is_not_there_is_refused_with_the_nearest(kiosk: Terminal):
    said = kiosk("catalog", "show", "pain", "--json")
    assert (said.exit, said.code) == (1, "unknown_tool")
    assert said.document["error"]["alternatives"] == ["paint"]


def test_a_row_says_when_a_person_decides(kiosk: Terminal):
    assert "approval" in kiosk("catalog", "show", "give", "--json").document
    assert kiosk("catalog", "show", "give").exit == 0


def test_a_row_shows_its_connector_and_what_bounds_it(kiosk: Terminal):
    document = kiosk("catalog", "show", "ring", "--json").document
    assert (document["connector"], document["priority"], document["order_by"]) == (
        "belfry",
        "normal",
        None,
    )
    bounds = "concurrency 4, rate 1000.0, breaker (failures 50, pause 10 s, pause_max 300 s)"
    assert document["connector_bounds"] == bounds
    assert bounds in kiosk("catalog", "show", "ring").out


@pytest.mark.parametrize("file", ["nowhere.py", "", "/"])
def test_a_file_that_can_not_be_read_is_usage(terminal: Terminal, file: str):
    said = terminal("catalog", "check", file, "--json")
    assert (said.exit, said.code) == (2, "usage")
    assert f"{file!r} can't be read: " in said.document["error"]["message"]
