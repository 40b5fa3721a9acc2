"""Whoever is killed, whenever: no second server, no server without a client, no data lost."""

import os
import signal
import subprocess
import threading
from contextlib import suppress

import psycopg
import pytest

from takeback.embedded import acquire, stop
from takeback.embedded.lock import is_held
from tests.embedded.player import (
    eventually,
    gone,
    keepers,
    kill,
    knows,
    place,
    postmaster,
    postmasters,
    remember,
    value,
)

pytestmark = pytest.mark.chaos


def test_the_server_ends_when_its_only_client_is_killed(stage):
    player = stage.player()
    player.url()
    player.kill()
    assert eventually(lambda: gone(stage.directory))


def test_a_killed_clients_file_is_not_taken_for_a_live_one(own_stage):
    victim, other = own_stage.player(), own_stage.player()
    victim.url(), other.url()
    victim.kill()
    other.do("server.release()")
    assert gone(own_stage.directory)
    assert list((own_stage.directory / "clients").iterdir()) == []


def test_a_forked_child_does_not_keep_the_server_alive(own_stage):
    player = own_stage.player()
    player.url()
    player.begin(
        "import os, time; child = os.fork(); child or time.sleep(60); print(child, flush=True)"
    )
    child = int(player.hear())
    player.kill()
    assert eventually(lambda: gone(own_stage.directory))
    kill(child)


def test_a_forked_childs_release_does_not_release_the_parents_share(own_stage):
    player = own_stage.player()
    url = player.url()
    player.begin(
        "import os; child = os.fork(); child or (server.release(), os._exit(7)); "
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)"
    )
    assert player.hear() == "7"
    assert value(url, "SELECT 1") == 1
    assert len(list((own_stage.directory / "clients").iterdir())) == 1


def test_a_program_started_by_a_client_does_not_keep_the_server_alive(own_stage):
    player = own_stage.player()
    player.url()
    player.begin(
        "import subprocess; child = subprocess.Popen(['sleep', '60'], close_fds=False); "
        "print(child.pid, flush=True)"
    )
    child = int(player.hear())
    player.kill()
    assert eventually(lambda: gone(own_stage.directory))
    kill(child)


def test_a_starter_killed_while_it_starts_leaves_no_server(new_stage, slow_initdb):
    binaries, reached, go = slow_initdb()
    starter = new_stage.player(binaries=binaries)
    assert eventually(reached.exists)
    starter.kill()
    go.touch()
    assert eventually(lambda: gone(new_stage.directory))
    assert value(new_stage.player().url(), "SELECT 1") == 1


def test_another_client_goes_on_where_a_killed_starter_left(new_stage, slow_initdb):
    binaries, reached, go = slow_initdb()
    starter = new_stage.player(binaries=binaries)
    assert eventually(reached.exists)
    starter.kill()
    other = new_stage.player()
    assert eventually(lambda: any((new_stage.directory / "clients").glob(f"{other.process.pid}-*")))
    go.touch()
    assert value(other.url(), "SELECT 1") == 1
    assert len(keepers(new_stage.directory)) == len(postmasters(new_stage.directory)) == 1


def test_a_cluster_half_made_is_not_used(new_stage, slow_initdb):
    binaries, reached, go = slow_initdb()
    starter = new_stage.player(binaries=binaries)
    assert eventually(reached.exists)
    (half,) = new_stage.directory.glob(".takeback-init-*")
    (keeper,) = keepers(new_stage.directory)
    kill(keeper)
    go.touch()  # initdb goes on, though nobody waits for it
    assert value(starter.url(), "SELECT 1") == 1  # from another keeper, and another initdb
    assert not half.exists()
    assert not list(new_stage.directory.glob(".takeback-init-*"))


def test_a_client_killed_while_it_stops_leaves_no_server(own_stage):
    player = own_stage.player()
    player.url()
    server = postmaster(own_stage.directory)
    kill(server, signal.SIGSTOP)
    player.begin("server.release()")
    assert eventually(lambda: not any((own_stage.directory / "clients").iterdir()))
    player.kill()
    kill(server, signal.SIGCONT)
    assert eventually(lambda: gone(own_stage.directory))


def test_who_comes_while_the_server_stops_gets_a_new_one(own_stage):
    player = own_stage.player()
    player.url()
    server = postmaster(own_stage.directory)
    kill(server, signal.SIGSTOP)
    player.begin("server.release()")
    assert eventually(lambda: is_held(own_stage.directory / "gate.lock"))
    late = own_stage.player()
    kill(server, signal.SIGCONT)
    assert value(late.url(), "SELECT 1") == 1
    assert postmaster(own_stage.directory) != server


def test_a_killed_server_is_begun_anew_by_the_next_client(stage):
    player = stage.player()
    number = remember(player.url())
    before = postmaster(stage.directory)
    kill(before)
    assert knows(stage.player().url(), number)
    assert postmaster(stage.directory) != before


def test_a_server_killed_with_all_its_clients_recovers(own_stage):
    player = own_stage.player()
    number = remember(player.url())
    (keeper,) = keepers(own_stage.directory)
    for victim in (keeper, player.process.pid, postmaster(own_stage.directory)):
        kill(victim)
    assert knows(own_stage.player().url(), number)


def test_a_backend_that_still_computes_for_a_killed_server_is_not_in_the_way(own_stage):
    player = own_stage.player()
    url = player.url()
    busy = psycopg.connect(url, autocommit=True)
    pid = busy.info.backend_pid
    thread = threading.Thread(target=_compute, args=[busy])
    thread.start()
    computes = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ 'series'"
    assert eventually(lambda: value(url, computes + f" AND pid = {pid}") == 1)
    kill(postmaster(own_stage.directory))
    assert value(own_stage.player().url(), "SELECT 1") == 1
    thread.join()
    busy.close()


def test_a_killed_server_is_begun_anew_without_being_asked(own_stage):
    url = own_stage.player().url()
    before = postmaster(own_stage.directory)
    kill(before)
    assert eventually(lambda: _answers(url))
    assert postmaster(own_stage.directory) != before
    assert len(keepers(own_stage.directory)) == 1


def test_a_server_whose_keeper_was_killed_is_taken_over(own_stage):
    first = own_stage.player()
    started = value(first.url(), "SELECT pg_postmaster_start_time()")
    (keeper,) = keepers(own_stage.directory)
    kill(keeper)
    second = own_stage.player()
    assert value(second.url(), "SELECT pg_postmaster_start_time()") == started
    for player in (first, second):
        player.kill()
    assert eventually(lambda: gone(own_stage.directory))


def test_the_last_one_out_ends_a_server_whose_keeper_was_killed(own_stage):
    player = own_stage.player()
    player.url()
    (keeper,) = keepers(own_stage.directory)
    kill(keeper)
    player.do("server.release()")
    assert gone(own_stage.directory)


def test_stop_ends_a_server_that_lost_both_keeper_and_clients(own_stage):
    player = own_stage.player()
    player.url()
    (keeper,) = keepers(own_stage.directory)
    kill(keeper)
    player.kill()
    assert postmasters(own_stage.directory)
    stop(own_stage.directory)
    assert gone(own_stage.directory)


def test_a_keeper_asked_to_end_ends_its_server(own_stage):
    own_stage.player().url()
    (keeper,) = keepers(own_stage.directory)
    kill(keeper, signal.SIGTERM)
    assert eventually(lambda: gone(own_stage.directory))


def test_a_keeper_asked_to_end_while_it_starts_ends_what_it_started(own_new_stage, slow_initdb):
    binaries, reached, go = slow_initdb()
    starter = own_new_stage.player(binaries=binaries)
    assert eventually(reached.exists)
    (keeper,) = keepers(own_new_stage.directory)
    kill(keeper, signal.SIGTERM)
    go.touch()
    assert value(starter.url(), "SELECT 1") == 1  # from another keeper
    assert keeper not in keepers(own_new_stage.directory)
    assert len(postmasters(own_new_stage.directory)) == 1


def test_a_starter_whose_keeper_was_killed_begins_another(own_new_stage, slow_initdb):
    binaries, reached, go = slow_initdb()
    starter = own_new_stage.player(binaries=binaries)
    assert eventually(reached.exists)
    (keeper,) = keepers(own_new_stage.directory)
    kill(keeper)
    assert eventually(lambda: keepers(own_new_stage.directory) not in ([], [keeper]))
    go.touch()
    assert value(starter.url(), "SELECT 1") == 1


def test_a_pid_file_that_names_somebody_elses_process_is_stale(directory):
    acquire(directory).release()
    data = place(directory)[0] / "pgdata"
    stranger = subprocess.Popen(["sleep", "60"], user=data.stat().st_uid)
    (data / "postmaster.pid").write_text(f"{stranger.pid}\n{data}\n0\n5432\n/nowhere\n\n\n")
    os.chown(data / "postmaster.pid", data.stat().st_uid, -1)
    with acquire(directory) as server:
        assert value(server.url, "SELECT 1") == 1
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_a_pid_file_cut_short_is_stale(directory):
    acquire(directory).release()
    data = place(directory)[0] / "pgdata"
    (data / "postmaster.pid").write_text("")
    os.chown(data / "postmaster.pid", data.stat().st_uid, -1)
    with acquire(directory) as server:
        assert value(server.url, "SELECT 1") == 1


def test_the_process_table_shows_what_these_tests_look_for(own_stage):
    own_stage.player().url()
    assert not gone(own_stage.directory)
    assert keepers(own_stage.directory)
    assert postmasters(own_stage.directory)


def _compute(connection: psycopg.Connection) -> None:
    with suppress(psycopg.OperationalError):
        connection.execute("SELECT sum(n) FROM generate_series(1, 100000000000) AS series(n)")


def _answers(url: str) -> bool:
    with suppress(psycopg.OperationalError):
        return value(url, "SELECT 1") == 1
    return False
