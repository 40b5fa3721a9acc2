"""ARCHITECTURE.md draws the rooms as the import contracts hold them."""

import re
import tomllib

from tests.docs.page import ROOT, read

PAGE = read("ARCHITECTURE.md")
ROOM = re.compile(r"^ {4}(\w+(?: · \w+)*)(?: {2,}|$)")


def drawn() -> list[set[str]]:
    """The rooms of the library line by line, from the top."""
    _, _, drawing = PAGE.text.partition("Inside the library")
    drawing = drawing.partition("\n`model` and")[0]
    return [
        set(found[1].split(" · ")) for line in drawing.splitlines() if (found := ROOM.match(line))
    ]


def test_the_drawing_is_the_one_that_the_contracts_hold():
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (layers,) = (
        contract["layers"]
        for contract in document["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    assert drawn() == [set(re.findall(r"\w+", layer)) for layer in layers]


def test_the_packages_of_the_drawing_are_there():
    named = re.findall(
        r"^ {4}((?:engine|workers|migrations|examples)/\w+)", PAGE.text, re.MULTILINE
    )
    assert len(named) == 4
    assert [name for name in named if not (ROOT / name).is_dir()] == []


def test_the_modules_that_a_call_flows_through_are_there():
    named = re.findall(r"^ {4,}(\w+)\.(\w+) ", PAGE.text, re.MULTILINE)
    assert named
    homes = {"takeback_workers": "workers/takeback_workers"}
    paths = [
        ROOT / homes.get(room, f"engine/takeback/{room}") / f"{module}.py" for room, module in named
    ]
    assert [path for path in paths if not path.exists()] == []
