"""The demo as a newcomer runs it: a process of its own, read from outside."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import make_url

from takeback_shop.agent import Said
from takeback_shop.telling import NARROWEST, WIDTH, TextTeller, width_of

pytestmark = pytest.mark.slow

SECONDS_MAX = 100
OWN_DATABASE = re.compile(r"takeback_demo_\w+")
REF = re.compile(r"\b(?:send_customer_email|restore)-[0-9A-Z]{8}\b")


def environment(folder: Path, **said: str) -> dict[str, str]:
    """Nothing but what a shell has, and a home without anything in it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "DATABASE_URL" and not name.startswith(("TAKEBACK_", "SHOP_", "XDG_"))
    }
    return (
        kept
        | {
            "HOME": str(folder),
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        }
        | said
    )


def demo(folder: Path, *arguments: str, **said: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "takeback_shop.demo", *arguments],
        env=environment(folder, **said),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints on the embedded server."""
    done = demo(tmp_path_factory.mktemp("home"))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory, databases: Any) -> dict[str, Any]:
    """The same story as a document, on the server that the tests have."""
    folder = tmp_path_factory.mktemp("home")
    done = demo(folder, "--json", TAKEBACK_DATABASE_URL=databases.server_url)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def section(told: str, title: str) -> str:
    """What stands below the line that begins with ``title``, up to the next empty one."""
    return told.split(f"\n{title}", 1)[1].split("\n\n", 1)[0]


def steps(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for scene in document["scenes"] for step in scene["steps"]]


def answers(document: dict[str, Any], tool: str) -> list[dict[str, Any]]:
    return [step["answer"] for step in steps(document) if step.get("tool") == tool]


@pytest.mark.parametrize(
    "word",
    ["scheduled", "replayed", "taken back", "restore", "sent", "refused", "needs approval"],
)
def test_the_story_is_told_in_the_status_words(told, word):
    assert word in told


def test_the_story_names_what_it_is_played_on(told):
    assert "embedded Postgres" in told
    assert re.search(r"smtp://127\.0\.0\.1:\d+, a real SMTP server", told)
    assert re.search(r"worker +process \d+", told)


def test_a_repeated_call_has_the_ref_of_the_first(told):
    scene = section(told, "1. ")
    assert len(set(REF.findall(scene))) == 1
    assert "scheduled, replayed: send_customer_email-" in scene


def test_the_refusal_of_a_mistyped_status_holds_the_call_that_follows(told):
    scene = section(told, "2. ")
    offered = re.search(r"next_call: (.*)", scene)
    assert offered is not None
    assert f"agent     {offered.group(1)}" in scene
    assert "Ticket T-7 is closed; it was pending." in scene


def test_the_wrong_customer_comes_back_with_the_same_rows(told):
    before, after = re.findall(r"the digest (\w+)", section(told, "3. "))
    assert before == after
    assert "Dana Ruiz, is back with 3 orders and 2 addresses." in told


def test_the_mailbox_holds_the_mails_that_should_be_there_and_says_why_others_are_not(told):
    mailbox = section(told, "The mailbox at the end").splitlines()[1:]
    assert [line.split(None, 1) for line in mailbox[:2]] == [
        ["sent", "to dana@example.com: Your order O-2 takes longer than we said"],
        ["sent", "to dana@example.com: Your refund for order O-1"],
    ]
    assert all(line.startswith("  not sent") for line in mailbox[2:])
    assert "apology for O-1: taken back before it left" in "\n".join(mailbox[2:])


def test_the_refund_over_the_limit_waits_and_none_was_made(told):
    assert "The payment provider: 0 refunds so far" in told
    assert "charge ch_2 waits for a person to approve it." in told


def test_the_log_verifies_at_the_end(told):
    counted = re.search(r"verify +(\d+) intents, (\d+) events", told)
    assert counted is not None and int(counted.group(1)) >= 9


def test_a_line_fits_a_terminal(told):
    assert max(map(len, told.splitlines())) <= 100


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("columns", "width"), [("80", 80), ("200", WIDTH), ("9", NARROWEST)])
def test_a_terminal_is_told_in_its_own_width(monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    screen = _Screen()
    teller = TextTeller(screen)
    teller.begin({})
    teller.beat(Said(by="person", text="wait " * 50))
    assert width - 5 <= max(map(len, screen.getvalue().splitlines())) <= width
    assert width_of(io.StringIO()) == WIDTH


def test_the_document_has_every_step_with_its_answer(document):
    assert document["status"] == "done"
    first, again = answers(document, "send_customer_email")[:2]
    assert (first["ref"], again["replayed"]) == (again["ref"], True)
    assert [one["status"] for one in answers(document, "refund_charge")] == [
        "scheduled",
        "refused",
        "needs_approval",
    ]
    assert answers(document, "restore")[-1]["error"]["code"] == "too_late"


def test_the_document_has_the_mailbox_and_what_was_verified(document):
    assert [mail["to"] for mail in document["mailbox"]] == ["dana@example.com"] * 2
    assert document["verify"]["problems"] == []
    assert (document["refunds"], len(document["absent"])) == (0, 2)


def test_a_mail_that_was_taken_back_is_not_in_the_mailbox(document):
    assert not any("sorry" in mail["subject"] for mail in document["mailbox"])


def test_nothing_is_left_on_the_server_that_was_given(document, server_url):
    own = OWN_DATABASE.search(document["setting"]["database"])
    assert own is not None
    with psycopg.connect(server_url) as connection:
        found = connection.execute(
            "SELECT datname FROM pg_database WHERE datname = %s", [own.group()]
        ).fetchall()
    assert found == []


def test_a_database_that_can_not_be_reached_is_one_sentence_and_exit_code_4(tmp_path):
    url = "postgresql://pat:geheim@127.0.0.1:1/shop"
    done = demo(tmp_path, TAKEBACK_DATABASE_URL=url)
    assert (done.returncode, done.stdout) == (4, "")
    assert "no database can be made at" in done.stderr
    assert "geheim" not in done.stderr and "Traceback" not in done.stderr


def test_a_failure_as_a_document_is_one_document(tmp_path):
    done = demo(tmp_path, "--json", TAKEBACK_DATABASE_URL="postgresql://127.0.0.1:1/shop")
    assert (done.returncode, done.stderr) == (4, "")
    assert json.loads(done.stdout)["error"]["code"] == "database_unavailable"


def test_a_role_that_may_make_no_database_is_told_what_to_do(tmp_path, server_url):
    role = "takeback_test_poor"
    with psycopg.connect(server_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN".encode())
        try:
            url = make_url(server_url).set(username=role, password=None)
            done = demo(tmp_path, TAKEBACK_DATABASE_URL=url.render_as_string())
        finally:
            admin.execute(f"DROP ROLE {role}".encode())
    assert done.returncode == 4
    assert "may not create a database" in " ".join(done.stderr.split())
    assert "CREATEDB" in done.stderr


def test_an_address_that_is_none_is_exit_code_2(tmp_path):
    done = demo(tmp_path, TAKEBACK_DATABASE_URL="mysql://127.0.0.1/shop")
    assert (done.returncode, "expected postgresql://" in done.stderr) == (2, True)


def test_ending_the_demo_halfway_leaves_no_process_and_no_file(tmp_path):
    (tmp_path / "tmp").mkdir()
    # The embedded server's account passes through.
    for directory in (tmp_path, tmp_path / "tmp"):
        directory.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "takeback_shop.demo"],
        env=environment(tmp_path, TMPDIR=str(tmp_path / "tmp")),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    worker = 0
    for line in process.stdout:
        if found := re.search(r"worker +process (\d+)", line):
            worker = int(found.group(1))
        if line.startswith("4. "):
            break
    process.send_signal(signal.SIGTERM)
    _, complaint = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, complaint) == (130, "")
    assert worker and not is_running(worker)
    assert list((tmp_path / "tmp").iterdir()) == []
    assert processes_of(tmp_path) == []


def test_a_demo_that_is_killed_takes_its_worker_along(tmp_path, server_url):
    process = subprocess.Popen(
        [sys.executable, "-m", "takeback_shop.demo"],
        env=environment(tmp_path, TAKEBACK_DATABASE_URL=server_url, TMPDIR=str(tmp_path)),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    own, worker = "", 0
    for line in process.stdout:
        if found := OWN_DATABASE.search(line):
            own = found.group()
        if found := re.search(r"worker +process (\d+)", line):
            worker = int(found.group(1))
            break
    process.kill()
    process.communicate()
    pause = threading.Event()
    for _ in range(400):
        if not is_running(worker):
            break
        pause.wait(0.05)
    assert worker and not is_running(worker)
    with psycopg.connect(server_url, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {own} WITH (FORCE)".encode())


def is_running(pid: int) -> bool:
    """Whether it is there and does something: one that waits to be buried has no arguments."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def processes_of(folder: Path) -> list[str]:
    """Processes that were told of a folder, in their arguments."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words:
            found.append(words.decode(errors="replace"))
    return found
