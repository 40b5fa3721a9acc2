"""requirements.lock pins all that pyproject.toml asks for, and tells nothing about a machine."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

PINNED = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", LOCK, flags=re.MULTILINE)
}


def wanted() -> list[Requirement]:
    """What `make test` installs: the library itself, and the extra `dev` without its own name."""
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *extras["dev"], *extras["embedded"]]
    return [Requirement(line) for line in lines if not line.startswith("takeback[")]


@pytest.mark.parametrize("requirement", wanted(), ids=str)
def test_every_dependency_is_pinned_within_its_bounds(requirement):
    assert requirement.specifier.contains(PINNED[canonicalize_name(requirement.name)])


def test_the_builder_is_pinned_too():
    assert "hatchling" in PINNED


def test_every_pin_carries_hashes():
    blocks = re.split(r"^(?=[A-Za-z0-9])", LOCK, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(PINNED)
    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []


def test_no_address_and_no_path_stands_in_the_lock():
    assert "://" not in LOCK
    assert not re.search(r"(^|\s)/\w", LOCK)
