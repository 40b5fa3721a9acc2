"""The app of the README, as it stands there, with its mail server and a database of its own."""

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from takeback import Settings, Takeback
from takeback.testing import MailServer
from takeback_shop import handlers
from takeback_shop.catalog import CATALOG
from tests.docs.page import read
from tests.docs.refusal import World

MODULES = ("tools", "handlers", "app")
PORT = "127.0.0.1:2525"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour:
    """The files of the README in ``directory``; mail goes to ``mail``."""

    directory: Path
    mail: MailServer
    url: str

    @property
    def files(self) -> list[str]:
        """Their names, in the order of the page."""
        return list(written())


def written() -> dict[str, str]:
    """The files of the README by their names."""
    blocks = read("README.md").blocks
    return {block.said["file"]: block.text for block in blocks if "file" in block.said}


@pytest.fixture
def open_shop() -> Iterator[Callable[[str], Takeback]]:
    """The shop on the database of an address, closed at the end."""
    with ExitStack() as closing:

        def opened(url: str) -> Takeback:
            app = Takeback(CATALOG, handlers=handlers, settings=Settings(database_url=url))
            closing.callback(app.close)
            return app

        yield opened


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


@pytest.fixture
def tour(tmp_path: Path, database_url: str, mail: MailServer) -> Tour:
    for name, text in written().items():
        moved = text.replace(PORT, f"127.0.0.1:{mail.port}")
        (tmp_path / name).write_text(moved)
    return Tour(directory=tmp_path, mail=mail, url=database_url)


@pytest.fixture
def beginning(tour: Tour, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """What the examples of the other pages begin with: ``app``, ``handlers`` and ``url``.

    The accounts A-1 to A-9 exist.
    """
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", tour.url)
    monkeypatch.syspath_prepend(tour.directory)
    monkeypatch.chdir(tour.directory)
    loaded = {name: importlib.import_module(name) for name in MODULES}
    app = loaded["app"].app
    assert isinstance(app, Takeback)
    (table,) = re.findall(r'"(CREATE TABLE [^"]*)"', written()["use.py"])
    with psycopg.connect(tour.url) as db:
        db.execute(table)
        db.execute(
            "INSERT INTO accounts SELECT 'A-' || n, 'Dana ' || n, true FROM generate_series(1, 9) n"
        )
    try:
        yield {"app": app, "handlers": loaded["handlers"], "url": tour.url}
    finally:
        app.close()
        for name in MODULES:
            del sys.modules[name]


@pytest.fixture
def world(
    database_url: str,
    open_shop: Callable[[str], Takeback],
    mail: MailServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    monkeypatch.setenv("SHOP_SMTP_URL", mail.url)
    monkeypatch.setenv("SHOP_STATE_DIR", str(tmp_path))
    return World(app=open_shop(database_url), url=database_url, mail=mail)
