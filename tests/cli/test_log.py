"""The log of our own processes: lines for people or for programs, others' words included."""

import json
import logging

import pytest

from takeback import log
from tests.cli.terminal import Terminal


def said(capture: pytest.CaptureFixture[str], kind: str, *, brief: bool) -> str:
    log.configure(kind, brief=brief)
    try:
        raise ZeroDivisionError("by nothing")
    except ZeroDivisionError as problem:
        log.logger.info("worker_started", worker="w:1")
        log.logger.error("attempt_broke", ref="ring-7F3K9QDM", exc_info=problem)
        logging.getLogger("sqlalchemy.pool.impl.QueuePool").error("reset", exc_info=problem)
    return capture.readouterr().err


def test_programs_get_a_document_a_line_with_the_traceback_in_it(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
):
    lines = [json.loads(line) for line in said(capsys, "json", brief=False).splitlines()]
    assert [line["event"] for line in lines] == ["worker_started", "attempt_broke", "reset"]
    assert [line["level"] for line in lines] == ["info", "error", "error"]
    assert all("ZeroDivisionError" in line["exception"] for line in lines[1:])
    assert all(line["timestamp"].endswith("Z") for line in lines)


def test_people_get_lines_and_below_them_the_traceback(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
):
    text = said(capsys, "console", brief=False)
    assert "worker_started" in text
    assert text.count("Traceback") == 2
    assert "\x1b" not in text


@pytest.mark.parametrize("kind", ["console", "json"])
def test_a_brief_log_has_errors_alone_and_of_each_one_line(
    terminal: Terminal, capsys: pytest.CaptureFixture[str], kind: str
):
    (line,) = said(capsys, kind, brief=True).splitlines()
    assert "attempt_broke" in line
    assert "ZeroDivisionError: by nothing" in line
    assert "Traceback" not in line
