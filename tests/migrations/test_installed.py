"""The migrations run from an installed wheel, with the source nowhere in sight."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_wheel_alone_migrates_a_database(tmp_path: Path, empty_database_url: str):
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([*build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(installed)
    code = (
        "import takeback, takeback_migrations as m\n"
        f"assert takeback.__file__.startswith({str(installed)!r}), takeback.__file__\n"
        f"assert m.__file__.startswith({str(installed)!r}), m.__file__\n"
        f"print(m.upgrade({empty_database_url!r}))\n"
    )
    said = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert said.startswith("(None, '")
