"""Root's server runs as somebody else, and nothing that is not ours changes its mode for that."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from takeback.embedded import acquire, discard, site
from takeback.embedded.account import Account, can_reach, require_own_directory, server_account
from takeback.embedded.binaries import Binaries, find_binaries, reachable_binaries
from takeback.model.errors import EmbeddedUnavailable
from tests.embedded.player import Player, gone, knows, place, postmaster, remember, value

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as another")
STRANGER = 12345


@pytest.fixture
def keep(open_directory: Path) -> Path:
    """Where root keeps things, for what happens in the process of the test."""
    return open_directory / "keep"


@pytest.fixture
def hidden_binaries(tmp_path: Path) -> Binaries:
    """Programs under a directory that nobody but root may enter."""
    tmp_path.chmod(0o700)
    real = find_binaries().directory.parent
    if real.name != "pginstall":
        pytest.skip("the system's programs find their files by absolute paths")
    hidden = tmp_path / real.parent.name
    for part in ("bin", "lib", "share"):
        shutil.copytree(real / part, hidden / real.name / part, copy_function=os.link)
    libraries = real.parent.with_name(f"{real.parent.name}.libs")
    shutil.copytree(libraries, tmp_path / libraries.name, copy_function=os.link)
    return find_binaries(hidden / real.name / "bin")


def test_an_ordinary_accounts_server_is_its_own(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getegid", lambda: 1001)
    assert server_account() == Account(uid=1000, gid=1001, drops=False)


@needs_root
def test_roots_server_is_nobodys():
    account = server_account()
    assert account.drops
    assert account.uid != 0
    assert account.extra_groups == []


@needs_root
def test_data_under_a_private_home_lies_elsewhere(private_directory):
    modes = {p: p.stat().st_mode for p in private_directory.parents}
    with acquire(private_directory) as server:
        number = remember(server.url)
        home, socket = place(private_directory)
        assert home.parent == Path("/tmp")  # as that of the test is temporary too
        assert (home.stat().st_mode & 0o777, home.stat().st_uid) == (0o711, 0)
        assert ((home / "pgdata").stat().st_mode & 0o777, socket.stat().st_mode & 0o777) == (
            0o700,
            0o700,
        )
    with acquire(private_directory) as server:
        assert knows(server.url, number)
    assert {path: path.stat().st_mode for path in modes} == modes


@needs_root
def test_data_that_can_be_reached_lies_where_it_was_asked_for(open_directory):
    with acquire(open_directory / "db"):
        assert place(open_directory / "db")[0] == open_directory / "db"
    discard(open_directory / "db")


@needs_root
def test_data_whose_directory_is_gone_is_not_silently_begun_anew(private_directory):
    acquire(private_directory).release()
    home, _ = place(private_directory)
    home.rename(home.with_name(f"{home.name}-away"))
    with pytest.raises(EmbeddedUnavailable, match="is gone"):
        acquire(private_directory)
    home.with_name(f"{home.name}-away").rename(home)


@needs_root
def test_data_in_a_directory_that_somebody_else_made_is_refused(private_directory):
    acquire(private_directory).release()
    home, _ = place(private_directory)
    os.chown(home, STRANGER, -1)
    with pytest.raises(EmbeddedUnavailable, match=f"belongs to uid {STRANGER}"):
        acquire(private_directory)
    os.chown(home, 0, -1)


@needs_root
def test_a_socket_directory_that_somebody_else_made_is_not_used(open_directory):
    deep = open_directory / ("long" * 30)
    acquire(deep).release()
    planted = Path(tempfile.mkdtemp(prefix="tb-planted-", dir="/tmp"))
    planted.chmod(0o777)
    os.chown(planted, STRANGER, -1)
    noted = json.loads((deep / "place.json").read_text())
    (deep / "place.json").write_text(json.dumps(noted | {"socket": str(planted)}))
    with acquire(deep) as server:
        assert value(server.url, "SELECT 1") == 1
        assert place(deep)[1] != planted
    assert list(planted.iterdir()) == []
    planted.rmdir()
    discard(deep)


@needs_root
def test_another_account_cannot_connect(own_stage):
    url = own_stage.player().url()
    tried = subprocess.run(
        [sys.executable, "-c", SNEAK, url], capture_output=True, text=True, check=False
    )
    assert "Permission denied" in tried.stderr


@needs_root
def test_a_directory_of_another_account_is_refused(open_directory):
    os.chown(open_directory, STRANGER, -1)
    with pytest.raises(EmbeddedUnavailable, match=f"belongs to uid {STRANGER}"):
        acquire(open_directory)


@needs_root
def test_roots_keep_that_somebody_else_made_is_refused(open_directory):
    planted = open_directory / "keep"
    planted.mkdir()
    os.chown(planted, STRANGER, -1)
    with pytest.raises(EmbeddedUnavailable, match=f"belongs to uid {STRANGER}"):
        site.root_keep((planted,))


def test_a_keep_that_is_a_symlink_is_refused(open_directory):
    (open_directory / "elsewhere").mkdir()
    (open_directory / "keep").symlink_to(open_directory / "elsewhere")
    with pytest.raises(EmbeddedUnavailable, match="no directory"):
        site.root_keep((open_directory / "keep",))


def test_a_keep_that_others_may_write_in_is_refused(open_directory):
    (open_directory / "keep").mkdir()
    (open_directory / "keep").chmod(0o1777)
    with pytest.raises(EmbeddedUnavailable, match=r"others have access .*mode 1777"):
        site.root_keep((open_directory / "keep",))


def test_a_keep_that_cannot_be_made_gives_way_to_the_next(open_directory):
    impossible = open_directory / "no" / "such" / "parent"
    assert site.root_keep((impossible, open_directory / "keep")) == open_directory / "keep"
    assert (open_directory / "keep").stat().st_mode & 0o777 == 0o755


def test_reach_is_judged_by_every_parent(open_directory, tmp_path):
    stranger = Account(uid=STRANGER, gid=STRANGER, drops=True)
    (open_directory / "inner").mkdir(mode=0o711)
    tmp_path.chmod(0o700)
    assert can_reach(stranger, open_directory / "inner")
    assert not can_reach(stranger, tmp_path)
    assert not can_reach(stranger, Path(tempfile.mkdtemp(dir=tmp_path)))
    assert can_reach(Account(uid=STRANGER, gid=STRANGER, drops=False), tmp_path)


def test_a_plain_file_is_no_directory_of_ours(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedUnavailable, match="no directory"):
        require_own_directory(tmp_path / "file", owner=os.geteuid())


@needs_root
def test_programs_that_can_be_reached_are_run_where_they_lie(keep):
    found = Binaries(directory=Path("/usr/bin"), major=18)
    open_to_all = Account(uid=0, gid=0, drops=False)
    assert reachable_binaries(found, open_to_all, keeps=[keep]) is found
    assert not keep.exists()


@needs_root
def test_programs_out_of_reach_are_copied_once(hidden_binaries, keep):
    account = server_account()
    copy = reachable_binaries(hidden_binaries, account, keeps=[keep])
    assert copy.directory.is_relative_to(keep)
    said = subprocess.run(
        [copy.directory / "initdb", "--version"],
        user=account.user,
        group=account.group,
        extra_groups=account.extra_groups,
        check=True,
        capture_output=True,
        text=True,
    )
    assert f"(PostgreSQL) {copy.major}" in said.stdout
    before = (copy.directory / "postgres").stat()
    assert reachable_binaries(hidden_binaries, account, keeps=[keep]) == copy
    assert (copy.directory / "postgres").stat().st_ino == before.st_ino


@needs_root
def test_a_copy_cut_short_is_not_used(hidden_binaries, keep):
    site.root_keep((keep,))
    (keep / ".copy-abandoned").mkdir()
    (keep / ".copy-abandoned" / "postgres").touch()
    copy = reachable_binaries(hidden_binaries, server_account(), keeps=[keep])
    assert (copy.directory / "postgres").stat().st_size > 1_000_000
    assert not (keep / ".copy-abandoned").exists()


@needs_root
def test_a_copy_that_somebody_else_made_is_refused(hidden_binaries, keep):
    copy = reachable_binaries(hidden_binaries, server_account(), keeps=[keep])
    planted = next(keep / part.name for part in keep.iterdir() if part.is_dir())
    assert copy.directory.is_relative_to(planted)
    os.chown(planted, STRANGER, -1)
    with pytest.raises(EmbeddedUnavailable, match=f"belongs to uid {STRANGER}"):
        reachable_binaries(hidden_binaries, server_account(), keeps=[keep])


@needs_root
def test_several_who_need_a_copy_at_once_run_one(private_directory, hidden_binaries):
    """Through the keepers of three directories, into the place where root really keeps it."""
    directories = [private_directory.with_name(f"db{n}") for n in range(3)]
    before = _copies()
    players = [Player(d, binaries=hidden_binaries.directory) for d in directories]
    try:
        for player, directory in zip(players, directories, strict=True):
            assert value(player.url(), "SELECT 1") == 1
            program = Path(f"/proc/{postmaster(directory)}/exe").readlink()
            assert not program.is_relative_to(private_directory.parent)
            assert program.stat().st_uid == 0
    finally:
        for player, directory in zip(players, directories, strict=True):
            player.kill()
            discard(directory)
            assert not directory.exists()
        made = _copies() - before
        for copy in made:
            shutil.rmtree(copy)
    assert len(made) <= 1


@needs_root
def test_root_in_its_own_private_home_gets_a_server(private_directory, monkeypatch):
    monkeypatch.setenv("HOME", str(private_directory.parent))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    try:
        with acquire() as server:
            assert server.directory == private_directory.parent / ".local/share/takeback"
            assert value(server.url, "SELECT 1") == 1
        assert gone(server.directory)
    finally:
        discard()


# The account is changed late: it could not read root's Python and driver.
SNEAK = f"""
import os, sys
import psycopg
os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER})
psycopg.connect(sys.argv[1])
"""


def _copies() -> set[Path]:
    return {copy for keep in site.ROOT_KEEPS for copy in keep.glob("postgres-*")}
