"""What is printed as a command is pasted into a shell: it does there what it says, or nothing."""

import re
from pathlib import Path

import pytest

import takeback
import takeback_workers
from tests.cli.terminal import Terminal, call

QUOTED = re.compile(r"'[^']*'|\"[^\"$`\\]*\"")
META = re.compile(r"[|<>&;$`()]")
PRINTED = re.compile(r"(?:^|(?<=  ))takeback .+$|(?<=`)takeback [^`]*(?=`)", re.MULTILINE)
ROOTS = [Path(package.__path__[0]) for package in (takeback, takeback_workers)]


def unquoted(command: str) -> list[str]:
    """What a shell would take for its own in a command.

    >>> unquoted("takeback resolve a-1 --as succeeded|failed"), unquoted("takeback x --n '(a|b)'")
    (['|'], [])
    """
    return META.findall(QUOTED.sub("", command))


@pytest.fixture
def pages(kiosk: Terminal) -> list[str]:
    """What people read of a bell of which nobody knows, and then of it in every other state."""
    ref = kiosk.ref(*call("ring", bell="north", how="badly"))
    assert kiosk("worker", "--drain").exit == 0
    waits = kiosk.ref(*call("give", "--principal", "agent:till", amount=500))
    said: list[str] = []

    def look(*line: str) -> None:
        told = kiosk(*line)
        said.append(told.out + told.err)

    def look_all_round() -> None:
        once_more = call("ring", "--repeat-of", ref, bell="north", how="badly")
        for line in (
            ("show", ref),
            ("retry", ref),
            ("restore", ref),
            ("amend", ref, "--args", '{"bell": "south"}'),
            once_more,
            ("resolve", ref, "--as", "nothing"),
            ("doctor",),
        ):
            look(*line)

    look_all_round()
    look("resolve", ref, "--as", "unknown")
    look_all_round()  # which has it tried again
    look("resolve", ref, "--as", "failed")
    look("resolve", ref, "--as", "succeeded")
    look("show", waits)
    look("freeze", "--tool", "give", "--reason", "$(a; b)", "--principal", "dana")
    look("doctor")
    return said


def test_no_printed_command_has_what_a_shell_takes_for_its_own(pages):
    commands = [command for page in pages for command in PRINTED.findall(page)]
    for verb in ("resolve", "retry", "show", "approve", "deny", "thaw"):
        assert any(one.startswith(f"takeback {verb} ") for one in commands), verb
    assert [(one, unquoted(one)) for one in commands if unquoted(one)] == []


def test_no_command_that_a_sentence_names_has_what_a_shell_takes_for_its_own():
    named = [
        (path.name, command)
        for root in ROOTS
        for path in root.rglob("*.py")
        for command in re.findall(r"(?<!`)`(takeback [^`\n]*)`", path.read_text())
    ]
    assert len(named) > 10
    assert [one for one in named if unquoted(re.sub(r"{[^}]*}", "", one[1]))] == []


def test_the_word_that_decides_nothing_is_the_first_of_the_next_steps(pages):
    """Each is a line of its own."""
    (refused,) = [page for page in pages[:3] if "is in doubt: `resolve` says" in page]
    words = re.findall(r"takeback resolve \S+ --as (.+)$", refused, re.MULTILINE)
    assert words == ["unknown", "succeeded", "failed"]
