"""Directories for servers, whose processes and data are gone after each test."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from takeback.embedded import discard
from tests.embedded.player import Persona, Player, eventually, gone, ordinary

AS_ROOT = os.geteuid() == 0
STOP = "import sys, pathlib, takeback.embedded as e; e.stop(pathlib.Path(sys.argv[1]))"
TIDY = "import sys, pathlib, takeback.embedded as e; e.discard(pathlib.Path(sys.argv[1]))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A directory that a persona may use, and the players on it."""

    directory: Path
    persona: Persona
    players: list[Player]

    def player(self, **options) -> Player:
        player = Player(self.directory, persona=self.persona, **options)
        self.players.append(player)
        return player


@pytest.fixture(scope="session")
def own_root() -> Iterator[Path]:
    yield from _root(Persona())


@pytest.fixture(scope="session")
def ordinary_root() -> Iterator[tuple[Persona, Path]]:
    if not AS_ROOT:
        pytest.skip("the account of the tests is an ordinary one already")
    persona = ordinary()
    if persona is None:
        pytest.skip("no Python >= 3.11 here that an ordinary account can run")
    for root in _root(persona):
        yield persona, root


@pytest.fixture(params=["own", "ordinary"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A directory used before; once for the tests' account, and for an ordinary one beside root."""
    if request.param == "own":
        yield from _play(Persona(), request.getfixturevalue("own_root") / "db")
    else:
        persona, root = request.getfixturevalue("ordinary_root")
        yield from _play(persona, root / "db")


@pytest.fixture
def own_stage(own_root: Path) -> Iterator[Stage]:
    """As ``stage``, for the tests' account only: for what does not depend on it."""
    yield from _play(Persona(), own_root / "db")


@pytest.fixture
def new_stage(stage: Stage) -> Iterator[Stage]:
    """As ``stage``, in a directory where no server ever was."""
    yield from _play_anew(stage)


@pytest.fixture
def own_new_stage(own_stage: Stage) -> Iterator[Stage]:
    """As ``new_stage``, for the tests' account only."""
    yield from _play_anew(own_stage)


@pytest.fixture
def directory(own_stage: Stage) -> Path:
    """The directory of ``own_stage``, for tests that are its client themselves."""
    return own_stage.directory


@pytest.fixture(scope="session")
def private_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory under one that nobody else may enter."""
    private = tmp_path_factory.mktemp("private")
    private.chmod(0o700)
    yield private / "db"
    discard(private / "db")
    assert not (private / "db").exists()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """An empty directory that every account may enter."""
    path = Path(tempfile.mkdtemp(prefix="tb-open-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def slow_initdb(open_directory: Path) -> Callable[[], tuple[Path, Path, Path]]:
    """Binaries whose initdb tells when it has begun and waits to be let go on."""

    def build() -> tuple[Path, Path, Path]:
        from takeback.embedded.binaries import find_binaries

        real = find_binaries().directory
        reached, go = open_directory / "reached", open_directory / "go"
        reached.mkdir()
        reached.chmod(0o777)
        programs = open_directory / "bin"
        programs.mkdir(mode=0o755)
        wait = f"touch {reached}/here; while [ ! -e {go} ]; do sleep 0.02; done"
        for name, before in {"initdb": wait, "postgres": ":"}.items():
            script = programs / name
            script.write_text(f'#!/bin/sh\n{before}\nexec {real}/{name} "$@"\n')
            script.chmod(0o755)
        return programs, reached / "here", go

    return build


def _root(persona: Persona) -> Iterator[Path]:
    """A directory that every account may enter, so that root's server lies in it."""
    root = Path(tempfile.mkdtemp(prefix="tb-", dir="/tmp"))
    root.chmod(0o755)
    if persona.uid is not None:
        os.chown(root, persona.uid, -1)
    yield root
    persona.run(TIDY, str(root / "db"))
    shutil.rmtree(root)


def _play(persona: Persona, directory: Path) -> Iterator[Stage]:
    stage = Stage(directory=directory, persona=persona, players=[])
    yield stage
    for player in stage.players:
        player.kill()
    if (directory / "place.json").exists():
        persona.run(STOP, str(directory))
        assert eventually(lambda: gone(directory))


def _play_anew(stage: Stage) -> Iterator[Stage]:
    directory = stage.directory.with_name("new")
    yield from _play(stage.persona, directory)
    stage.persona.run(TIDY, str(directory))
