"""The wheel holds the four packages whole, and nothing of the house around them."""

import importlib.metadata
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "takeback": "engine",
    "takeback_workers": "workers",
    "takeback_migrations": "migrations",
    "takeback_shop": "examples",
}
EXTRAS = {
    "embedded",
    "mcp",
    "console",
    "dramatiq",
    "stripe",
    "s3",
    "otel",
    "adapters",
    "all",
    "dev",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([*build, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.iterdir()
    with zipfile.ZipFile(path) as opened:
        yield opened


def metadata(wheel: zipfile.ZipFile):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return Parser().parsestr(wheel.read(name).decode())


def test_every_file_of_the_four_roots_is_in_the_wheel(wheel):
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES.values()],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    expected = {line.split("/", 1)[1] for line in tracked if (ROOT / line).exists()}
    assert expected
    assert expected - set(wheel.namelist()) == set()


def test_nothing_but_the_four_packages_is_in_the_wheel(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} <= PACKAGES.keys()


def test_the_licence_goes_with_the_wheel(wheel):
    assert metadata(wheel)["License-Expression"] == "Apache-2.0"
    (licence,) = [name for name in wheel.namelist() if name.endswith("licenses/LICENSE")]
    assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()


def test_the_extras_are_those_that_were_promised(wheel):
    assert set(metadata(wheel).get_all("Provides-Extra")) == EXTRAS


def test_the_extra_all_brings_what_every_other_but_dev_brings(wheel):
    brought: dict[str, set[str]] = {extra: set() for extra in EXTRAS}
    for line in metadata(wheel).get_all("Requires-Dist"):
        requirement, _, extra = line.partition("; extra == ")
        if extra:
            brought[extra.strip("'")].add(requirement)
    others = EXTRAS - {"all", "dev"}
    assert brought["all"] == set().union(*(brought[extra] for extra in others))


def test_the_command_is_called_takeback():
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="takeback")
    assert entry.value == "takeback.cli.main:main"
