"""One server for all who name a directory: the first starts it, the last one out stops it."""

import json
import os
import signal
import threading
from pathlib import Path

import psycopg
import pytest
import sqlalchemy

from takeback.embedded import acquire, discard, stop
from takeback.model.errors import EmbeddedUnavailable
from tests.embedded.player import (
    eventually,
    gone,
    keepers,
    kill,
    knows,
    place,
    postmasters,
    remember,
    value,
)


def test_what_has_no_schema_in_its_name_never_lands_in_ours(own_stage):
    with psycopg.connect(own_stage.player().url()) as tx:
        tx.execute("CREATE SCHEMA takeback")
        assert tx.execute("SELECT current_schema()").fetchone() == ("public",)
        tx.rollback()


def test_a_first_client_finds_a_server_with_fixed_settings(new_stage):
    url = new_stage.player().url()
    settings = {
        "fsync": "on",
        "TimeZone": "UTC",
        "log_timezone": "UTC",
        "server_encoding": "UTF8",
        "listen_addresses": "",
        "data_checksums": "on",
        "lc_messages": "C",
    }
    assert {name: value(url, f"SHOW {name}") for name in settings} == settings


def test_the_server_belongs_to_no_privileged_account(stage):
    stage.player().url()
    (server,) = postmasters(stage.directory)
    assert Path(f"/proc/{server}").stat().st_uid != 0
    assert "CapEff:\t0000000000000000" in Path(f"/proc/{server}/status").read_text()


def test_a_second_client_gets_the_same_server(stage):
    first, second = stage.player().url(), stage.player().url()
    assert first == second
    assert len(postmasters(stage.directory)) == 1


def test_several_who_start_at_once_get_one_server(new_stage):
    players = [new_stage.player() for _ in range(5)]
    urls = [player.url() for player in players]
    started = {value(url, "SELECT pg_postmaster_start_time()") for url in urls}
    assert len(started) == 1
    assert len(keepers(new_stage.directory)) == len(postmasters(new_stage.directory)) == 1


def test_the_server_stays_while_another_client_is_left(own_stage):
    first, second = own_stage.player(), own_stage.player()
    first.url()
    url = second.url()
    first.do("server.release()")
    assert value(url, "SELECT 1") == 1


def test_the_last_one_out_waits_until_the_server_is_gone(stage):
    first, second = stage.player(), stage.player()
    first.url(), second.url()
    first.do("server.release()")
    second.do("server.release()")
    assert gone(stage.directory)
    assert not list((place(stage.directory)[0] / "pgdata").glob("postmaster.pid"))


def test_a_client_that_ends_without_release_counts_as_out(own_stage):
    player = own_stage.player()
    player.url()
    player.close()
    assert eventually(lambda: gone(own_stage.directory))


def test_data_is_there_after_a_restart(stage):
    player = stage.player()
    number = remember(player.url())
    player.do("server.release()")
    assert knows(stage.player().url(), number)


def test_one_process_may_be_a_client_several_times(directory):
    with acquire(directory) as first:
        with acquire(directory) as second:
            assert first.url == second.url
        assert value(first.url, "SELECT 1") == 1
    assert gone(directory)


def test_threads_that_start_at_once_get_one_server(directory):
    servers = []
    threads = [
        threading.Thread(target=lambda: servers.append(acquire(directory))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({server.url for server in servers}) == 1
    assert len(postmasters(directory)) == 1
    for server in servers:
        server.release()


def test_releasing_twice_is_releasing_once(directory):
    with acquire(directory) as other:
        server = acquire(directory)
        server.release()
        server.release()
        assert value(other.url, "SELECT 1") == 1


def test_the_version_is_the_servers_own(directory):
    with acquire(directory) as server:
        assert value(server.url, "SHOW server_version").split()[0] == server.version


def test_the_address_works_with_sqlalchemy(directory):
    with acquire(directory) as server:
        url = server.url.replace("postgresql://", "postgresql+psycopg://", 1)
        engine = sqlalchemy.create_engine(url)
        with engine.connect() as connection:
            assert connection.scalar(sqlalchemy.text("SELECT 1")) == 1
        engine.dispose()


def test_the_address_does_not_depend_on_the_environment(directory, monkeypatch):
    for name, text in {
        "PGPORT": "1",
        "PGHOST": "127.0.0.2",
        "PGUSER": "x",
        "PGDATABASE": "y",
    }.items():
        monkeypatch.setenv(name, text)
    with acquire(directory) as server:
        assert value(server.url, "SELECT current_user || current_database()") == "postgrespostgres"


def test_any_name_of_a_directory_will_do(tmp_path):
    odd = tmp_path / "spaces, 'quotes', \"more\", größe %41"
    with acquire(odd) as server:
        assert value(server.url, "SELECT 1") == 1
    discard(odd)


def test_a_symlink_leads_to_the_same_server(tmp_path, directory):
    with acquire(directory) as server:
        link = tmp_path / "link"
        link.symlink_to(directory)
        with acquire(link) as same:
            assert same.url == server.url


def test_a_path_too_long_for_a_socket_has_its_socket_elsewhere(open_directory):
    deep = open_directory / ("long" * 30)
    with acquire(deep) as server:
        number = remember(server.url)
        home, before = place(deep)
        assert (home, before.parent) == (deep, Path("/tmp"))
        assert before.stat().st_mode & 0o777 == 0o700
    assert not before.exists()
    with acquire(deep) as server:
        assert knows(server.url, number)
        assert place(deep)[1] != before
    discard(deep)


def test_a_directory_that_was_moved_keeps_its_data(open_directory):
    with acquire(open_directory / "old") as server:
        number = remember(server.url)
    (open_directory / "old").rename(open_directory / "new")
    with acquire(open_directory / "new") as server:
        assert knows(server.url, number)
    discard(open_directory / "new")


def test_a_client_hung_up_on_by_its_terminal_takes_nobody_along(own_stage):
    starter, other = own_stage.player(), own_stage.player()
    starter.url()
    url = other.url()
    started = value(url, "SELECT pg_postmaster_start_time()")
    os.killpg(starter.process.pid, signal.SIGINT)
    os.killpg(starter.process.pid, signal.SIGHUP)
    starter.close()
    assert value(url, "SELECT pg_postmaster_start_time()") == started
    (keeper,) = keepers(own_stage.directory)
    assert os.getsid(keeper) != starter.process.pid


def test_the_server_learns_nothing_from_its_first_clients_environment(own_stage):
    own_stage.player(secret="hunter2").url()
    for pid in (*keepers(own_stage.directory), *postmasters(own_stage.directory)):
        assert b"hunter2" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_stop_is_refused_while_there_is_a_client(directory):
    with acquire(directory) as server:
        with pytest.raises(EmbeddedUnavailable, match=rf"used by process {os.getpid()}\b"):
            stop(directory)
        with pytest.raises(EmbeddedUnavailable, match="used by process"):
            discard(directory)
        assert value(server.url, "SELECT 1") == 1


def test_stop_does_nothing_where_nothing_runs(tmp_path, directory):
    stop(tmp_path / "never")
    assert not (tmp_path / "never").exists()
    acquire(directory).release()
    stop(directory)
    assert gone(directory)


def test_discard_leaves_nothing_but_what_is_not_ours(own_new_stage):
    directory = own_new_stage.directory
    acquire(directory).release()
    (directory / "notes.txt").write_text("mine")
    discard(directory)
    assert [entry.name for entry in directory.iterdir()] == ["notes.txt"]
    with pytest.raises(EmbeddedUnavailable, match="holds other things"):
        acquire(directory)
    (directory / "notes.txt").unlink()


def test_a_new_server_begins_empty_after_its_directory_was_deleted(own_new_stage):
    player = own_new_stage.player()
    remember(player.url())
    player.do("import shutil; shutil.rmtree(server.directory)")
    player.kill()
    url = own_new_stage.player().url()
    assert value(url, "SELECT count(*) FROM pg_class WHERE relname = 'remembered'") == 0


def test_an_operators_own_stop_is_respected(own_stage):
    url = own_stage.player().url()
    assert value(url, "SELECT 1") == 1
    (server,) = postmasters(own_stage.directory)
    kill(server, signal.SIGINT)
    assert eventually(lambda: gone(own_stage.directory))
    assert json.loads((own_stage.directory / "place.json").read_text())["home"] == "."
    assert value(own_stage.player().url(), "SELECT 1") == 1
