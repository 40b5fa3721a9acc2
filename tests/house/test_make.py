"""The commands of the Makefile that documents may rely on."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = ("demo", "test", "lint", "bench", "docs", "help")


def make(*arguments: str) -> str:
    done = subprocess.run(
        ["make", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_make_alone_tells_what_there_is():
    told = re.findall(r"^make (\w+) +\S", make(), flags=re.MULTILINE)
    assert set(TARGETS) <= set(told)


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_can_be_planned(target):
    assert make("--dry-run", target)


def test_a_newer_lock_builds_the_environment_anew():
    planned = make("--dry-run", "--what-if=requirements.lock", "test")
    assert "--require-hashes" in planned


def test_no_older_python_is_taken():
    refused = subprocess.run(
        ["make", "PYTHON=", "--what-if=requirements.lock", ".venv/ready"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert refused.returncode != 0
    assert "no Python >= 3.11 found" in refused.stderr
