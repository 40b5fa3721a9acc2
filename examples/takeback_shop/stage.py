"""What the demo is played on: a database, a mail server and a worker, all of this run alone.

Everything is taken down again in the opposite order, however the run ends; a run that is killed
leaves no process behind, since server and worker end with whoever has started them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy.engine import URL, make_url

from takeback import InvalidSettings, Settings, Takeback, Unavailable, embedded, testing
from takeback.ledger.database import sqlalchemy_url
from takeback_shop.assembly import assemble
from takeback_shop.seed import CHARGES
from takeback_shop.setting import ShopSettings

EMAIL_WINDOW = timedelta(seconds=3)
WORKER_STOP_SECONDS_MAX = 10.0


class NoDatabase(Unavailable):
    """No database can be had for the demo; the message says why and what to do."""

    code = "database_unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """The run's own database; ``server`` says in words where it lies."""

    url: str
    name: str
    server: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A running set-up. ``database`` says in words which one it is, without a password."""

    app: Takeback
    mail: testing.MailServer
    worker: subprocess.Popen[bytes]
    worker_log: Path
    database: str
    state_directory: Path

    @property
    def payments(self) -> testing.FakePayments:
        """The payment provider as it sees itself."""
        return testing.FakePayments(self.state_directory, charges=CHARGES)


@contextmanager
def open_stage(url: str | None, *, between: Callable[[], None]) -> Iterator[Stage]:
    """The set-up, on the server behind ``url`` or, when that is None, on one of its own.

    ``between`` is called between two steps, and may end it all by raising.
    Raises NoDatabase, EmbeddedUnavailable, or InvalidSettings for a URL that is none, and where
    no mail server is installed.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(_directory()))
        server_url = url or stack.enter_context(_embedded_server(directory / "pg"))
        between()
        own = stack.enter_context(_database(server_url, directory.name.replace("-", "_")))
        mail = stack.enter_context(_mail_server())
        shop = ShopSettings(
            email_window=EMAIL_WINDOW, smtp_url=mail.url, state_directory=directory / "state"
        )
        app = assemble(shop, Settings(database_url=own.url))
        stack.callback(app.close)
        between()
        app.migrate()
        between()
        log = directory / "worker.log"
        worker = stack.enter_context(_worker(_environment(shop, own), directory, log))
        yield Stage(
            app=app,
            mail=mail,
            worker=worker,
            worker_log=log,
            database=f"{'embedded ' if url is None else ''}{own.server}, database {own.name}",
            state_directory=shop.state_directory,
        )


@contextmanager
def _directory() -> Iterator[str]:
    """A directory of this run; its name is that of the database too, since nobody else has it."""
    directory = tempfile.mkdtemp(prefix="takeback-demo-")
    try:
        # Root's embedded server runs as somebody else, who has to pass through.
        Path(directory).chmod(0o711)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _embedded_server(directory: Path) -> Iterator[str]:
    server = embedded.acquire(directory)
    try:
        yield server.url
    finally:
        server.release()
        embedded.discard(directory)


@contextmanager
def _database(server_url: str, name: str) -> Iterator[Database]:
    """A new database on the server, dropped at the end. Raises InvalidSettings for no URL."""
    server = make_url(sqlalchemy_url(server_url)).set(drivername="postgresql")
    try:
        with _admin(server) as admin:
            version = admin.info.server_version
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    except psycopg.errors.InsufficientPrivilege as refusal:
        raise NoDatabase(
            f"the role {server.username!r} may not create a database at {server!r}, and each run "
            "of the demo starts from an empty one of its own; allow it (ALTER ROLE … CREATEDB), "
            "or unset TAKEBACK_DATABASE_URL and DATABASE_URL to use the embedded Postgres"
        ) from refusal
    except psycopg.Error as refusal:
        raise NoDatabase(
            f"no database can be made at {server!r}: {_first_line(refusal)}; start that server, "
            "correct TAKEBACK_DATABASE_URL, or unset it to use the embedded Postgres"
        ) from refusal
    try:
        yield Database(
            url=server.set(database=name).render_as_string(hide_password=False),
            name=name,
            server=f"Postgres {version // 10_000}.{version % 10_000}",
        )
    finally:
        # A server that went away meanwhile is its owner's matter.
        with suppress(psycopg.OperationalError), _admin(server) as admin:
            drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            admin.execute(drop.format(sql.Identifier(name)))


def _admin(server: URL) -> psycopg.Connection[tuple[object, ...]]:
    url = server.render_as_string(hide_password=False)
    return psycopg.connect(url, autocommit=True, connect_timeout=5)


def _mail_server() -> testing.MailServer:
    try:
        return testing.MailServer()
    except ModuleNotFoundError as missing:
        raise InvalidSettings(
            f"the demo needs a mail server, and {missing.name!r} is not installed; "
            'run: pip install "takeback[embedded]"'
        ) from missing


@contextmanager
def _worker(
    environ: Mapping[str, str], directory: Path, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in a process of its own; it ends when its input does."""
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "takeback_shop.worker"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=dict(environ),
            cwd=directory,
            # Ctrl-C is for the story's own process, which then ends this one in good order.
            start_new_session=True,
        )
    try:
        yield worker
    finally:
        assert worker.stdin is not None
        worker.stdin.close()
        try:
            worker.wait(WORKER_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _environment(shop: ShopSettings, database: Database) -> dict[str, str]:
    """The worker's environment: nothing of what its user has set up for another Takeback."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name != "DATABASE_URL" and not name.startswith(("TAKEBACK_", "SHOP_"))
    }
    return inherited | {
        "PYTHONPATH": os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path if entry),
        "SHOP_EMAIL_WINDOW_S": str(EMAIL_WINDOW.total_seconds()),
        "SHOP_SMTP_URL": shop.smtp_url,
        "SHOP_STATE_DIR": str(shop.state_directory),
        "TAKEBACK_DATABASE_URL": database.url,
    }


def _first_line(problem: psycopg.Error) -> str:
    return str(problem).strip().partition("\n")[0] or type(problem).__name__
