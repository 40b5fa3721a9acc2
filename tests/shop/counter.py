"""The shop as tests use it: an app on a seeded database, its mail server and its providers."""

import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool

from takeback import Envelope, Settings, Takeback
from takeback.testing import FakeFiles, FakePayments, MailServer
from takeback_shop import seed
from takeback_shop.assembly import assemble
from takeback_shop.digest import digest_at
from takeback_shop.setting import ShopSettings

AGENT = "agent:support"
PERSON = "user:pat"


class Counter:
    """Where agents and persons come to the shop, each in a transaction of its own."""

    def __init__(self, url: str, mail: MailServer, state: Path) -> None:
        self.url = url
        self.mail = mail
        self.state = state
        self.app = self.open(None)

    def open(self, email_window: timedelta | None) -> Takeback:
        """An app of the shop with that window for mails."""
        shop = ShopSettings(
            email_window=email_window, smtp_url=self.mail.url, state_directory=self.state
        )
        return assemble(shop, Settings(database_url=self.url))

    def call(
        self,
        tool: str,
        *,
        run: str | None = "run-1",
        principal: str = AGENT,
        repeat_of: str | None = None,
        tx: object = None,
        **arguments: Any,
    ) -> Envelope:
        return self.app.call(tx, tool, arguments, run=run, principal=principal, repeat_of=repeat_of)

    def restore(self, done: Envelope, *, principal: str = AGENT, force: bool = False) -> Envelope:
        """The restore call of ``done``, as it came; or by its ref, where it came with none."""
        offered = done.restore or {"arguments": {"ref": done.ref}}
        return self.app.restore(None, **offered["arguments"], principal=principal, force=force)

    def work(self, app: Takeback | None = None) -> None:
        """Carries out what is due, until nothing is."""
        pause = threading.Event()
        worker = (app or self.app).worker(
            name="test", sleep=lambda seconds: _wait(pause, seconds), stopping=lambda: False
        )
        worker.run(drain=True)

    def digest(self) -> str:
        """One number for all rows of the shop."""
        return digest_at(self.url)

    def person(self, statement: str) -> None:
        """Somebody's own statement, committed."""
        with closing(psycopg.connect(self.url, autocommit=True)) as connection:
            connection.execute(statement.encode())

    def rows(self, query: str) -> list[tuple]:
        with closing(psycopg.connect(self.url, autocommit=True)) as connection:
            return connection.execute(query.encode()).fetchall()

    def value(self, query: str) -> Any:
        return self.rows(query)[0][0]

    @property
    def intents(self) -> int:
        return self.value("SELECT count(1) FROM takeback.intents")

    @property
    def payments(self) -> FakePayments:
        return FakePayments(self.state, charges=seed.CHARGES)

    @property
    def files(self) -> FakeFiles:
        return FakeFiles(self.state, files=seed.FILES)

    @property
    def engine(self) -> Engine:
        driver = make_url(self.url).set(drivername="postgresql+psycopg")
        return create_engine(driver, poolclass=NullPool)


def _wait(pause: threading.Event, seconds: float) -> None:
    pause.wait(seconds)
