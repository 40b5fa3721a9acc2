"""An app that prints, or ends the program: stdout is the answer's, and the exit code is ours."""

import json
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal, environment, process

LOUD = """
import sys
from pydantic import BaseModel
from takeback import Handler, Performed, Takeback
from takeback.declare import Catalog, Local, Tool

class Loud(BaseModel):
    ends: bool = False

def shout(session, arguments):
    print("the handler is heard")
    if arguments.ends:
        sys.exit(0)
    return Performed(result=1)

print("the module is heard")
row = Tool("shout", Loud, effect=Local(), key=("ends",), description="Shouts.")
app = Takeback(Catalog(row), handlers={"shout": Handler(perform=shout, restore=shout)})
"""


@pytest.fixture
def loud(kiosk: Terminal, tmp_path: Path) -> Path:
    """A folder with an app that prints, on the kiosk's database."""
    (tmp_path / "loud.py").write_text(LOUD)
    return tmp_path


def test_what_an_app_prints_is_not_taken_for_the_answer(loud: Path):
    environ = environment(TAKEBACK_APP="loud:app")
    said = process("call", "shout", "--json", environ=environ, directory=loud)
    assert (said.exit, json.loads(said.out)["status"]) == (0, "done")
    assert "the module is heard" in said.err
    assert "the handler is heard" in said.err
    told = process("call", "shout", environ=environ, directory=loud)
    assert told.out.startswith("done  shout-")
    assert "heard" not in told.out


def test_an_app_that_ends_the_program_does_not_say_how_the_command_ended(loud: Path):
    environ = environment(TAKEBACK_APP="loud:app")
    call = ("call", "shout", "--args", '{"ends": true}')
    said = process(*call, "--json", environ=environ, directory=loud)
    assert (said.exit, said.code) == (1, "internal_error")
    told = process(*call, environ=environ, directory=loud)
    assert (told.exit, told.out) == (1, "")
    assert "SystemExit" in told.err
    assert process("list", "--json", environ=environ, directory=loud).document == []
