"""The README's tour, as somebody who follows it meets it."""

import os
import re
import subprocess
import sys

from tests.docs.conftest import Tour
from tests.docs.example import expected_output, hold
from tests.docs.page import ROOT, read

README = read("README.md")


def run(tour: Tour, *arguments: str) -> str:
    environ = {k: v for k, v in os.environ.items() if k != "DATABASE_URL"}
    environ["TAKEBACK_DATABASE_URL"] = tour.url
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tour.directory,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tour_prints_what_it_says(tour: Tour):
    assert tour.files == ["tools.py", "handlers.py", "app.py", "use.py"]
    text = (tour.directory / "use.py").read_text()
    hold(run(tour, "use.py"), expected_output(text), place="README.md")


DRAIN = """
import time
from app import app
app.worker(name="tour", sleep=time.sleep, stopping=lambda: False).run(drain=True)
"""


def test_nothing_leaves_of_a_mail_that_the_tour_took_back(tour: Tour):
    run(tour, "use.py")
    run(tour, "-c", DRAIN)
    assert tour.mail.messages == []


def test_the_mail_of_the_tour_leaves_when_nobody_takes_it_back(tour: Tour):
    tools = tour.directory / "tools.py"
    tools.write_text(tools.read_text().replace("window=seconds(60)", "window=seconds(0)"))
    use = tour.directory / "use.py"
    use.write_text(use.read_text().partition("back = app.restore")[0])
    run(tour, "use.py")
    run(tour, "-c", DRAIN)
    (message,) = tour.mail.messages
    assert message.recipients == ("dana@example.com",)


def test_the_declaration_file_of_the_tour_passes_the_text_check(tour: Tour):
    from takeback.catalog.check import check_file

    assert check_file(tour.directory / "tools.py") == []


def test_the_first_two_commands_are_targets_of_the_makefile():
    (commands,) = re.findall(r"^## Two commands\n(.*?)^## ", README.text, re.MULTILINE | re.DOTALL)
    named = re.findall(r"^    make (\w+)", commands, re.MULTILINE)
    assert named == ["demo", "test"]
    targets = re.findall(r"^(\w+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(named) <= set(targets)
