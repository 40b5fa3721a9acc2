"""The command line has the lean bytes of every other door, and everything for people who ask."""

import json

import pytest

from takeback import Door, Settings, Takeback
from tests.cli.terminal import Terminal, call

PAINT = {"wall": "north", "colour": "green"}
OF_A_REPEAT = {"replayed", "first_called_at", "again"}


def once(text: str) -> str:
    kept = {name: one for name, one in json.loads(text).items() if name not in OF_A_REPEAT}
    return json.dumps(kept, ensure_ascii=False)


def app_of(url: str) -> Takeback:
    from tests.cli.folder import kiosk

    app = kiosk.app
    return Takeback(
        app.catalog,
        handlers={bound.name: bound.handler for bound in app.registry},
        settings=Settings(database_url=url),
    )


def test_the_command_line_has_the_bytes_of_the_library(kiosk: Terminal, database_url: str):
    """S3.3: ``call --json`` and ``show --json`` against ``app.status``."""
    said = kiosk(*call("paint", **PAINT), "--json")
    again = kiosk(*call("paint", **PAINT), "--json")
    assert once(said.out) == once(again.out)
    ref = said.document["ref"]
    app = app_of(database_url)
    try:
        library = app.status(ref)
        assert said.out == library.to_json() + "\n"
        shown = kiosk("show", ref, "--json").document
        assert list(shown)[: len(library)] == list(library)
        assert {name: shown[name] for name in library} == library.to_dict()
        restored = kiosk("restore", ref, "--json")
        assert restored.out == app.status(restored.document["ref"]).to_json() + "\n"
    finally:
        app.close()


def test_a_call_in_full_has_everything_beside_the_lean_answer(kiosk: Terminal):
    """S3.9."""
    said = kiosk(*call("paint", **PAINT), "--full", "--json")
    everything = said.document["full"]
    assert everything["bodies"]["result"]["result"] == {"former": "white"}
    assert everything["bodies"]["arguments"] == PAINT
    lean = {name: one for name, one in said.document.items() if name != "full"}
    again = kiosk(*call("paint", **PAINT), "--json").document
    assert lean["summary"] == again["summary"]
    assert "full" not in again


def test_a_read_in_full_has_every_row(kiosk: Terminal):
    for wall in ("north", "south", "east", "west"):
        kiosk(*call("paint", wall=wall, colour="green"))
    everything = kiosk(*call("seek", words="green"), "--full", "--json").document["full"]
    assert everything.keys() >= {"matches", "totals", "groups", "result"}
    assert "matches" in kiosk(*call("seek", words="green"), "--full").out


@pytest.mark.parametrize("principal", ["agent:support", " agent:support"])
def test_no_agent_has_the_full_answer(kiosk: Terminal, principal: str):
    """S3.1: a model never sees the full payload."""
    said = kiosk(*call("paint", **PAINT), "--full", "--principal", principal, "--json")
    assert (said.exit, said.code) == (2, "usage")
    assert kiosk("list", "--json").document == []


def test_whoever_reads_logs_as_json_hears_of_each_answer_with_its_sizes(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    """S3.5: one line for each door, with the bytes as they are there."""
    quiet = kiosk(*call("paint", **PAINT), "--json")
    assert quiet.err == ""
    monkeypatch.setenv("TAKEBACK_LOG", "json")
    said = kiosk(*call("paint", **PAINT), "--full", "--json")
    lines = [json.loads(line) for line in said.err.splitlines()]
    doors = [line["door"] for line in lines if line["event"] == "answered"]
    assert doors == [Door.CALL, Door.CLI_CALL, Door.CLI_CALL_FULL]
    document = said.document
    full = document.pop("full")
    assert lines[1]["lean_bytes"] == len(json.dumps(document, ensure_ascii=False).encode())
    assert lines[1]["full_bytes"] == len(json.dumps(full, ensure_ascii=False).encode())
    ref = document["ref"]
    for verb, door in ((("show", ref), Door.CLI_SHOW), (("list",), Door.CLI_LIST)):
        said = kiosk(*verb, "--json")
        assert door in [json.loads(line)["door"] for line in said.err.splitlines()]
