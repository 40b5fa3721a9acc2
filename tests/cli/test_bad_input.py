"""Whatever is typed, there is one clear message, the right exit code and no traceback."""

import json
import sys
from pathlib import Path

import psycopg
import pytest

from takeback.cli.main import parted
from tests.cli.terminal import PROGRAM, Said, Terminal, call, environment, process

LATER = [
    "rewind",
    "purge",
    "erase",
    "mcp",
    "console",
    "top",
]


def assert_told(said: Said, exit_: int) -> None:
    """One message on stderr, nothing on stdout, and nothing of how the program is made."""
    assert said.exit == exit_, said
    assert said.out == ""
    assert said.err
    assert "Traceback" not in said.err
    assert 'File "' not in said.err
    assert sum(line.startswith(("takeback:", "refused")) for line in said.err.splitlines()) == 1


@pytest.mark.parametrize("verb", [*LATER, "Call", "calls", "", "--", "call\x1b[2J"])
def test_a_verb_that_is_not_there_is_answered_with_those_that_are(terminal: Terminal, verb: str):
    said = terminal(verb, "x")
    assert_told(said, 2)
    if verb != "--":
        assert "expected one of: demo, up, migrate, doctor, call" in said.err
    assert "\x1b" not in said.err
    assert terminal("--json", verb, "x").code == "usage"


def test_a_verb_of_catalog_that_is_not_there_is_answered_too(terminal: Terminal):
    assert "expected one of: check, list, show" in terminal("catalog", "index").err
    assert "expected one of: check, list, show" in terminal("catalog").err


def test_nothing_at_all_is_answered_with_the_help_and_two(terminal: Terminal):
    said = terminal()
    assert said.exit == 2
    assert said.out.startswith("Usage: takeback")
    assert terminal("--json").code == "usage"


@pytest.mark.parametrize(
    "given",
    [
        "",
        "{",
        "[1]",
        "3",
        "null",
        "true",
        '"text"',
        "{'to': 'dana'}",
        '{"to": NaN}',
        '{"to": -Infinity}',
        '{"to": "a", "to": "b"}',
        '{"to": {"a": 1, "a": 2}}',
        '{"to": "dana"} trailing',
        "[" * 100_000,
        '{"to": ' + "9" * 5000 + "}",
        "@",
        "@/nowhere/at/all",
        "@.",
    ],
    ids=lambda given: given[:12] or "nothing",
)
def test_arguments_that_are_no_json_object_are_a_usage_error(kiosk: Terminal, given: str):
    said = kiosk("call", "post", "--args", given)
    assert_told(said, 2)
    assert "--args" in said.err
    assert len(said.err) < 1000
    assert kiosk("--json", "call", "post", "--args", given).code == "usage"


def test_arguments_in_a_file_that_is_no_text_say_where(kiosk: Terminal, tmp_path: Path):
    file = tmp_path / "arguments.json"
    file.write_bytes(b'{"to": "\xff"}')
    said = kiosk("call", "post", "--args", f"@{file}")
    assert_told(said, 2)
    assert "at byte 8" in said.err
    file.write_text(json.dumps({"to": "x" * 1_000_001}))
    assert "larger than 1,000,000 bytes" in kiosk("call", "post", "--args", f"@{file}").err
    endless = kiosk("call", "post", "--args", "@/dev/zero")
    assert_told(endless, 2)


def test_large_arguments_that_are_json_are_taken(kiosk: Terminal):
    said = kiosk(*call("post", to="dana", text="x" * 100_000), "--json")
    assert (said.exit, said.document["status"]) == (0, "scheduled")


def test_an_argument_that_is_no_utf8_is_a_usage_error(kiosk: Terminal):
    said = process("call", "post", "--args", b'{"to": "\xff"}')
    assert_told(said, 2)
    assert "argument 4 is no UTF-8" in said.err
    assert process("--json", "list", "--run", b"\xff").code == "usage"


@pytest.mark.parametrize(
    "arguments",
    [
        ["call"],
        ["restore"],
        ["show"],
        ["call", "post", "extra"],
        ["list", "extra"],
        ["list", "--nonsense"],
        ["list", "--limit"],
        ["--nonsense", "list"],
        ["--app"],
        ["catalog"],
        ["catalog", "check"],
        ["catalog", "show"],
        ["events", "--after"],
        ["doctor", "--show-secrets=yes"],
    ],
    ids=" ".join,
)
def test_what_can_not_be_parsed_names_the_help_of_its_verb(kiosk: Terminal, arguments: list[str]):
    said = kiosk(*arguments)
    assert_told(said, 2)
    assert "--help`" in said.err
    document = kiosk(*arguments, "--json") if arguments != ["--app"] else kiosk("--json", "--app")
    assert (document.exit, document.code) == (2, "usage")


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:s3cret@127.0.0.1/x",
        "me:s3cret",
        "postgresql://me:s3cret@127.0.0.1:port/x",
        "postgresql://me:s3cret@[::1/x",
        "://",
    ],
)
@pytest.mark.parametrize("verb", [["list"], ["migrate"], call("post", to="dana")], ids=str)
def test_a_database_url_of_nothing_is_a_setting_and_shows_no_password(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch, url: str, verb: list[str]
):
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", url)
    said = kiosk(*verb)
    assert_told(said, 2)
    assert "expected postgresql://" in said.err
    assert "next: `takeback doctor`" in said.err
    document = kiosk(*verb, "--json")
    assert (document.exit, document.code) == (2, "invalid_settings")
    assert "s3cret" not in said.err + document.out + document.err


@pytest.mark.parametrize(
    "verb",
    [
        ["migrate"],
        ["list"],
        ["show", "post-00000000"],
        ["events"],
        ["verify"],
        ["rebuild"],
        ["worker", "--drain"],
        ["restore", "post-00000000"],
        call("post", to="dana"),
    ],
    ids=lambda verb: verb[0],
)
def test_a_database_that_is_not_there_ends_with_four_and_where_it_was_looked_for(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch, verb: list[str]
):
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:s3cret@127.0.0.1:1/other")
    monkeypatch.delenv("TAKEBACK_DATABASE_URL")
    people = kiosk(*verb)
    assert people.exit == 4
    assert "postgresql://me:***@127.0.0.1:1/other (from DATABASE_URL)" in people.err
    assert "Connection refused" in people.err
    assert "s3cret" not in people.err


def test_a_database_that_is_not_there_is_transient_to_programs(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", "postgresql://me:s3cret@127.0.0.1:1/shop")
    said = kiosk("list", "--json")
    assert (said.exit, said.code) == (4, "database_unavailable")
    assert said.document["error"]["class"] == "transient"
    assert "s3cret" not in said.out


def test_a_database_that_does_not_exist_is_told_in_the_servers_words(
    kiosk: Terminal, server_url: str, monkeypatch: pytest.MonkeyPatch
):
    from tests.database import with_database

    monkeypatch.setenv("TAKEBACK_DATABASE_URL", with_database(server_url, "nowhere"))
    said = kiosk("migrate")
    assert_told(said, 4)
    assert 'database "nowhere" does not exist' in said.err


def test_a_role_without_privileges_is_told_so_and_not_that_we_are_broken(
    kiosk: Terminal, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS takeback_nobody")
        connection.execute("CREATE ROLE takeback_nobody")
    try:
        joined = "&" if "?" in database_url else "?"
        url = f"{database_url}{joined}options=-c%20role%3Dtakeback_nobody"
        monkeypatch.setenv("TAKEBACK_DATABASE_URL", url)
        said = kiosk("verify")
        assert_told(said, 4)
        assert "lacks a privilege" in said.err
    finally:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("DROP ROLE takeback_nobody")


def test_what_nobody_foresaw_is_one_message_and_a_file_with_the_details(
    kiosk: Terminal, tmp_path: Path
):
    (tmp_path / "broken.py").write_text(
        "from takeback import Takeback\n"
        "class Odd(Takeback):\n"
        "    def list(self, **said): raise KeyError('odd')\n"
        "import kiosk\n"
        "app = Odd(kiosk.CATALOG, handlers=kiosk.HANDLERS)\n"
    )
    (tmp_path / "kiosk.py").write_text((Path(__file__).parent / "folder/kiosk.py").read_text())
    ours = environment(TMPDIR=str(tmp_path))
    said = process("--app", "broken:app", "list", directory=tmp_path, environ=ours)
    assert_told(said, 1)
    assert "KeyError: 'odd'" in said.err
    (report,) = tmp_path.glob("takeback-*.txt")
    assert str(report) in said.err
    assert "Traceback" in report.read_text()
    document = process("--app", "broken:app", "list", "--json", directory=tmp_path, environ=ours)
    assert (document.exit, document.code) == (1, "internal_error")


def test_options_of_every_verb_stand_wherever_and_end_at_two_dashes():
    assert parted(["list", "--json", "--app", "a:b", "--", "--json"]) == (
        ["--json", "--app", "a:b"],
        ["list", "--", "--json"],
    )
    assert parted(["--app=a:b", "list"]) == (["--app=a:b"], ["list"])
    assert parted(["list", "--app"]) == (["--app"], ["list"])


def test_the_program_runs_under_its_script_too(kiosk: Terminal):
    script = Path(sys.executable).with_name("takeback")
    said = process("--version", program=[str(script)])
    assert (said.exit, said.out.split()[0]) == (0, "takeback")
    assert process("--version", program=PROGRAM).out == said.out
