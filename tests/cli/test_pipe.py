"""Whoever reads may go, the disk may be full, and Ctrl-C may come: no traceback, a fitting code."""

import json
import os
import signal
import subprocess
from pathlib import Path

import psycopg
import pytest

from tests.cli.terminal import FOLDER, PROGRAM, Bell, Terminal, call, environment, process, running
from tests.cli.test_worker import await_blocked


def test_a_reader_that_has_had_enough_ends_a_listing_quietly(kiosk: Terminal):
    kiosk.ref(*call("post", to="dana"))
    reading, writing = os.pipe()
    os.close(reading)
    for verb in (["list", "--json"], ["events"], ["--help"]):
        done = subprocess.run(
            [*PROGRAM, *verb],
            cwd=FOLDER,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=30,
            check=False,
        )
        assert done.stderr == b"", verb
        assert done.returncode in (1, 141), verb
    os.close(writing)


def test_a_full_disk_is_said_in_one_line(kiosk: Terminal):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, "list"],
            cwd=FOLDER,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=30,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"takeback: the output can't be written: No space left on device\n"


def test_a_command_without_any_stream_ends_as_it_should(kiosk: Terminal):
    closed = f"cd {FOLDER} && exec {PROGRAM[0]} -m takeback.cli.main list >&- 2>&- <&-"
    done = subprocess.run(["sh", "-c", closed], env=environment(), timeout=30, check=False)
    assert done.returncode == 0


def test_ctrl_c_ends_a_command_with_130_and_without_a_traceback(kiosk: Terminal, database_url: str):
    with psycopg.connect(database_url) as connection:
        connection.execute("LOCK TABLE takeback.intents IN ACCESS EXCLUSIVE MODE")
        for json_wanted in (False, True):
            with (
                running("list", *(["--json"] if json_wanted else [])) as listing,
                psycopg.connect(database_url, autocommit=True) as look,
            ):
                await_blocked(look)
                listing.tell(signal.SIGINT)
                ended = listing.ended()
            assert ended.exit == 130
            assert "Traceback" not in ended.err
            if json_wanted:
                assert ended.code == "interrupted"
            else:
                assert ended.err == "takeback: interrupted\n"


def test_an_encoding_that_can_not_say_a_letter_spells_it_out(kiosk: Terminal):
    kiosk.ref(*call("post", to="zoë"))
    ours = environment(PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    people = process("list", environ=ours)
    assert people.exit == 0
    assert "zo\\xeb" in people.out
    programs = process("list", "--json", environ=ours)
    assert json.loads(programs.out)[0]["summary"].startswith("Note to zoë")


@pytest.mark.parametrize(
    ("term", "more", "expected"),
    [("xterm", {}, True), ("dumb", {}, False), ("xterm", {"NO_COLOR": "1"}, False)],
)
def test_colour_is_for_terminals_that_want_it(
    kiosk: Terminal, term: str, more: dict[str, str], expected: bool
):
    import pty

    ref = kiosk.ref(*call("post", to="dana"))
    assert "\x1b" not in kiosk("show", ref).out
    mine, theirs = pty.openpty()
    subprocess.run(
        [*PROGRAM, "show", ref],
        cwd=FOLDER,
        env=environment(TERM=term, **more),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        timeout=30,
        check=True,
    )
    said = os.read(mine, 65536)
    os.close(theirs)
    os.close(mine)
    assert (b"\x1b[36mscheduled" in said) is expected


def test_colour_that_is_forced_on_others_is_not_forced_on_us(kiosk: Terminal):
    kiosk.ref(*call("post", to="dana"))
    said = process("list", environ=environment(FORCE_COLOR="1", CLICOLOR_FORCE="1"))
    assert "\x1b" not in said.out
    assert "\x1b" not in process("--help", environ=environment(FORCE_COLOR="1")).out


def test_a_bell_that_nobody_hears_still_rings(kiosk: Terminal, bell: Bell):
    ref = kiosk.ref(*call("ring", bell="a"))
    assert process("worker", "--drain").exit == 0
    assert bell.rung() == ref
