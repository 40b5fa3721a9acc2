"""What every test may ask for: a database, a server, dice with a seed."""

import os
import random
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import hypothesis
import psycopg
import pytest

from tests import database, pooler, services

SEED_VARIABLE = "TAKEBACK_TEST_SEED"
OURS = ("TAKEBACK_TEST_", "TAKEBACK_REQUIRE")

# A failing example is printed so that it can be pasted into a named test.
hypothesis.settings.register_profile("takeback", print_blob=True, deadline=None)
hypothesis.settings.load_profile("takeback")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the processes of one run share."""

    id: str
    seed: str

    @property
    def directory(self) -> Path:
        """Short, since a socket's path has to fit into 107 bytes."""
        return Path(tempfile.gettempdir()) / f"tb-{self.id}"


RUN = pytest.StashKey[Run]()


def pytest_configure(config: pytest.Config) -> None:
    shared = getattr(config, "workerinput", {}).get("takeback_run")
    config.stash[RUN] = Run(**shared) if shared else begin_run()
    forget_settings()


def begin_run() -> Run:
    seed = os.environ.get(SEED_VARIABLE) or str(random.SystemRandom().randrange(10**9))
    return Run(id=uuid.uuid4().hex[:8], seed=seed)


def forget_settings() -> None:
    """No test depends on what the person who runs it has set up for the product itself."""
    for name in list(os.environ):
        if name == "DATABASE_URL" or (
            name.startswith("TAKEBACK_")
            and not name.startswith(("TAKEBACK_TEST_", "TAKEBACK_REQUIRE"))
        ):
            del os.environ[name]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    node.workerinput["takeback_run"] = asdict(node.config.stash[RUN])


def pytest_report_header(config: pytest.Config) -> str:
    return f"dice: {SEED_VARIABLE}={config.stash[RUN].seed}"


def pytest_unconfigure(config: pytest.Config) -> None:
    """The first process leaves last, and takes along what all of them made."""
    if hasattr(config, "workerinput") or RUN not in config.stash:
        return
    run = config.stash[RUN]
    shutil.rmtree(run.directory, ignore_errors=True)
    if url := os.environ.get(database.URL_VARIABLE):
        # A server that can't be reached holds nothing of ours; the tests have said so already.
        with suppress(psycopg.OperationalError):
            database.drop_all(url, run.id)


@pytest.fixture(scope="session")
def databases(request: pytest.FixtureRequest) -> Iterator[database.Databases]:
    """The databases of this process, on a server that starts with the first test that wants it."""
    run = request.config.stash[RUN]
    process = getattr(request.config, "workerinput", {}).get("workerid", "one")
    source = database.choose(os.environ, database.docker_answers)
    with ExitStack() as stack:
        server_url = stack.enter_context(database.serve(source, directory=run.directory))
        yield database.Databases(server_url, run=run.id, process=process)


@pytest.fixture
def server_url(databases: database.Databases) -> str:
    """The server itself, as a superuser: for tests that make databases or roles of their own."""
    return databases.server_url


@pytest.fixture(scope="session")
def pooler_url(databases: database.Databases) -> Iterator[str | None]:
    """The pooler that the tests are to go through; None where nobody has asked for one."""
    if not os.environ.get(pooler.VARIABLE):
        yield None
        return
    pooler.never_prepare()
    with pooler.pooler(services.require("pgbouncer"), databases.server_url) as url:
        yield url


@pytest.fixture
def database_url(
    request: pytest.FixtureRequest, databases: database.Databases, pooler_url: str | None
) -> str:
    """A clean database, migrated, with the example's seeded tables in it."""
    url = databases.clean()
    if pooler_url is None or request.node.get_closest_marker("session"):
        return url
    return pooler.through(pooler_url, url)


@pytest.fixture
def empty_database_url(databases: database.Databases) -> Iterator[str]:
    """A database that nobody has touched, not even a migration."""
    with databases.empty() as url:
        yield url


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> str:
    """What the dice of this run start from, printed with the test that fails."""
    seed = request.config.stash[RUN].seed
    print(f"{SEED_VARIABLE}={seed}")
    return seed


@pytest.fixture
def rng(request: pytest.FixtureRequest, seed: str) -> random.Random:
    """Dice that fall alike whenever the run's seed and the test's name are the same."""
    return random.Random(f"{seed} {request.node.nodeid}")
