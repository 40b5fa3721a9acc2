"""Actors that lack a setting: two lines, and the exit code of one that can't be used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "cli" / "folder"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "no app is named"),
        ({"TAKEBACK_APP": "kiosk:nothing"}, "there is kiosk:app"),
        ({"TAKEBACK_APP": "kiosk:app"}, "broker_url is not set"),
    ],
    ids=["no app", "no such app", "no broker"],
)
def test_what_is_missing_is_said_in_two_lines_and_no_traceback(settings, said):
    kept = {name: it for name, it in os.environ.items() if not name.startswith("TAKEBACK_")}
    done = subprocess.run(
        [sys.executable, "-m", "dramatiq", "takeback_workers.actors", "--processes", "1"],
        cwd=FOLDER,
        env=kept | settings,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    ours = [line for line in done.stderr.splitlines() if "dramatiq.MainProcess" not in line]
    assert done.returncode == 2, done
    assert len(ours) == 2 and said in ours[0] and ours[1].startswith("next: "), done.stderr
    assert "Traceback" not in done.stdout + done.stderr
