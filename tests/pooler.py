"""A pgbouncer of our own in transaction mode, between the tests and their server.

    TAKEBACK_TEST_POOLER=1 make test ARGS="tests/ledger tests/client tests/dispatch"

runs them through it: each transaction may be on another server connection, so that whatever hangs
on a session (prepared statements, settings, session locks) is lost or, worse, somebody else's. What
a test itself wants a session for it marks ``session``: it is then given the server.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from takeback.embedded.account import server_account

VARIABLE = "TAKEBACK_TEST_POOLER"
START_LOOKS_MAX = 200
STOP_SECONDS = 10
POOL_SIZE = 20

INI = """
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = trust
auth_user = {user}
auth_file = {directory}/users
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 500
server_check_delay = 0
server_lifetime = 5
logfile = {directory}/log
pidfile = {directory}/pid
"""


@contextmanager
def pooler(program: str, server_url: str, *, pool_size: int = POOL_SIZE) -> Iterator[str]:
    """The URL of a pooler in front of the server; it goes by the names of the server's databases.

    It takes every role of the server, and no startup parameter but those that it follows itself.
    """
    target = conninfo_to_dict(server_url)
    account = server_account()
    home = Path(tempfile.mkdtemp(prefix="tb-pool-"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        own_port = free.getsockname()[1]
    user = str(target.get("user") or "postgres")
    ini = INI.format(
        host=target.get("host", "127.0.0.1"),
        port=target.get("port", 5432),
        own_port=own_port,
        user=user,
        directory=home,
        pool_size=pool_size,
    )
    (home / "pgbouncer.ini").write_text(ini)
    (home / "users").write_text(f'"{user}" "{target.get("password", "")}"\n')
    for path in (home, *home.iterdir()):
        account.give(path)
    process = subprocess.Popen(
        [program, "-q", str(home / "pgbouncer.ini")],
        user=account.user,
        group=account.group,
        extra_groups=account.extra_groups,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await_start(process, own_port, home / "log")
        yield f"postgresql://{urllib.parse.quote(user)}@127.0.0.1:{own_port}"
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        process.kill()
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


def _await_start(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    pause = threading.Event()
    for _ in range(START_LOOKS_MAX):
        if process.poll() is not None:
            break
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        pause.wait(0.05)
    said = log.read_text()[-1000:] if log.exists() else "nothing"
    raise RuntimeError(f"pgbouncer did not start; it said: {said}")


def through(pooler_url: str, url: str) -> str:
    """The same database and user, by the pooler.

    >>> through("postgresql://me@127.0.0.1:6432", "postgresql://dana@db:5432/shop?a=b")
    'postgresql://dana@127.0.0.1:6432/shop'
    """
    target = conninfo_to_dict(url)
    user = urllib.parse.quote(str(target.get("user") or os.environ.get("USER", "postgres")))
    port = pooler_url.rpartition(":")[2]
    return f"postgresql://{user}@127.0.0.1:{port}/{target.get('dbname', user)}"


def never_prepare() -> None:
    """What docs/database.md tells callers: a pooler of this age can't take prepared statements."""
    psycopg._preparing.PrepareManager.prepare_threshold = None
