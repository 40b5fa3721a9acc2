"""The verbs that there are: pinned, each with help and an example, and each on its page."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from takeback.cli.main import verbs
from tests.cli.terminal import Terminal, call
from tests.docs.page import read

VERBS = [
    "demo",
    "up",
    "migrate",
    "doctor",
    "call",
    "preview",
    "amend",
    "restore",
    "list",
    "show",
    "approve",
    "deny",
    "retry",
    "resolve",
    "freeze",
    "thaw",
    "connectors list",
    "connectors resume",
    "worker",
    "ticker",
    "verify",
    "rebuild",
    "events",
    "catalog check",
    "catalog list",
    "catalog show",
    "bench",
]
FILE = str(Path(__file__).parent / "folder" / "kiosk.py")

# Each in two ways, done and not, wherever it can be.
ONE_DOCUMENT: dict[str, tuple[list[str], int]] = {
    "migrate": (["migrate"], 0),
    "doctor": (["doctor"], 0),
    "call": (call("post", to="dana"), 0),
    "call refused": (call("post"), 1),
    "call of nothing": (call("nothing"), 1),
    "call without json": (["call", "post", "--args", "{"], 2),
    "preview": (["preview", *call("post", to="dana")[1:]], 0),
    "preview refused": (["preview", "post"], 1),
    "restore of nothing": (["restore", "post-00000000"], 3),
    "list": (["list"], 0),
    "list of no state": (["list", "--state", "x"], 2),
    "approval of nothing": (["approve", "post-00000000"], 3),
    "denial of nothing": (["deny", "post-00000000"], 3),
    "show of nothing": (["show", "post-00000000"], 3),
    "verify": (["verify"], 0),
    "rebuild": (["rebuild"], 0),
    "events": (["events"], 0),
    "check": (["catalog", "check", __file__], 1),
    "rows": (["catalog", "list"], 0),
    "row": (["catalog", "show", "paint"], 0),
    "no row": (["catalog", "show", "x"], 1),
    "no verb": (["no_such_verb"], 2),
    "no option": (["list", "--x"], 2),
    "no app": (["list", "--app", "nowhere:app"], 2),
}


def commands() -> Iterator[tuple[str, Any]]:
    for name, command in typer.main.get_command(verbs).commands.items():  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", one) for inner, one in command.commands.items())
        else:
            yield name, command


def options(command: Any) -> set[str]:
    found = {name for one in command.params for name in one.opts if name.startswith("--")}
    return found - {"--help"}


def sections() -> dict[str, str]:
    """The parts of the page, by verb."""
    parts = re.split(r"^## `takeback (.+)`$", read("docs/cli.md").text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_verbs_are_those_of_the_house_and_no_others():
    assert sorted(name for name, _ in commands()) == sorted(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_has_an_example_of_it(terminal: Terminal, verb: str):
    said = terminal(*verb.split(), "--help")
    assert said.exit == 0
    _, _, example = said.out.partition("Example:\n")
    assert f"takeback {verb}" in re.sub(r"--app \S+ |--json ", "", example)
    assert "--json" in example
    assert said.err == ""
    assert max(map(len, said.out.splitlines())) <= 80 or "--args" in said.out


@pytest.mark.parametrize("verb", VERBS)
def test_the_first_line_of_a_verbs_help_is_whole_where_verbs_are_listed(
    terminal: Terminal, verb: str
):
    *level, name = verb.split()
    listed = terminal(*level, "--help").out
    (line,) = [line for line in listed.splitlines() if line.startswith(f"  {name} ")]
    assert line.endswith(".")
    assert not line.endswith("...")


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_has_every_verb_with_an_example_and_its_exit_codes(verb: str):
    section = sections()[verb]
    assert f"takeback {verb}" in re.sub(r"--app \S+ ", "", section.partition("```console")[2])
    assert re.search(r"Exit\s+codes 0", section)


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_has_the_options_of_each_verb_and_no_others(verb: str):
    table = re.findall(r"^\| `(--[a-z-]+)", sections()[verb], re.MULTILINE)
    assert sorted(table) == sorted(options(dict(commands())[verb]))


def test_the_page_has_no_verb_that_there_is_not():
    assert sections().keys() == set(VERBS)


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("case", list(ONE_DOCUMENT))
def test_with_json_there_is_one_document_on_stdout_and_nothing_else(
    kiosk: Terminal, case: str, place: str
):
    verb, exit_ = ONE_DOCUMENT[case]
    said = kiosk("--json", *verb) if place == "before" else kiosk(*verb, "--json")
    document = json.loads(said.out)
    assert said.exit == exit_
    assert said.err == ""
    assert said.out.count("\n") == 1
    if exit_:
        assert document["status"] in ("refused", "error")
        assert document["error"].keys() == {
            "class",
            "code",
            "message",
            "retry_after_s",
            "violations",
            "next_call",
            "alternatives",
        }
        assert document["error"]["class"] in ("transient", "invalid_request", "terminal")


@pytest.mark.parametrize("case", [name for name, (_, exit_) in ONE_DOCUMENT.items() if exit_])
def test_people_are_told_the_same_failures_on_stderr(kiosk: Terminal, case: str):
    verb, exit_ = ONE_DOCUMENT[case]
    said = kiosk(*verb)
    assert said.exit == exit_
    assert said.err
    assert "Traceback" not in said.err


@pytest.mark.slow
def test_the_demo_is_one_document_too(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    from tests.cli.terminal import process

    said = process("demo", "--json")
    assert said.exit == 0
    assert said.document["status"] == "done"


def test_the_demo_without_its_extra_says_what_to_install(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    import sys

    for name in [name for name in sys.modules if name.startswith(("takeback_shop", "aiosmtpd"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "takeback_shop.demo", None)
    said = terminal("demo", "--json")
    assert (said.exit, said.code) == (2, "usage")
    assert 'pip install "takeback[embedded]"' in said.document["error"]["message"]
