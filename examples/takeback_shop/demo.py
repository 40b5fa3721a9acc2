"""The demo: a scripted agent works for the shop, and a newcomer sees what Takeback does.

    an empty database, a mail server, a worker process      stage
    what the agent does with them                           agent
    how it is told, as text or as JSON                      telling

Run by ``takeback demo`` and ``make demo``. It ends with exit code 0 only when everything was as the
story says: the mails that should be there and no other, the same rows, a log that verifies.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from takeback import InvalidSettings, Unavailable
from takeback.settings import load
from takeback_shop.agent import Agent, Awaited, Called, Compared, story, word_of
from takeback_shop.digest import digest_at
from takeback_shop.interruption import Interruption
from takeback_shop.mail import SUBJECTS
from takeback_shop.stage import EMAIL_WINDOW, Stage, open_stage
from takeback_shop.telling import JsonTeller, Teller, TextTeller, mail_told

CARRIED_OUT_SECONDS_MAX = 40.0
LOOK_SECONDS = 0.05
LOG_LINES_SHOWN = 20

DONE, FAILED, USAGE, UNAVAILABLE, INTERRUPTED, READER_GONE = 0, 1, 2, 4, 130, 141


class StoryBroke(Exception):
    """Something was not as the story says; the message says what."""


def main(json_output: bool = False) -> int:  # noqa: FBT001, FBT002
    """Plays the story and tells it on stdout; answers with the exit code of the process."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    teller: Teller = JsonTeller(sys.stdout) if json_output else TextTeller(sys.stdout)
    try:
        with Interruption() as interruption:
            url = load(os.environ, Path.cwd()).database_url
            with open_stage(url, between=interruption.check) as stage:
                _play(stage, teller, between=interruption.check)
    except InvalidSettings as problem:
        teller.fail(problem.code, str(problem))
        return USAGE
    except Unavailable as problem:
        teller.fail(problem.code, str(problem))
        return UNAVAILABLE
    except StoryBroke as problem:
        teller.fail("internal_error", str(problem))
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Nobody reads any more; what the interpreter still flushes at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    return DONE


def _play(stage: Stage, teller: Teller, *, between: Callable[[], None]) -> None:
    teller.begin(
        {
            "database": stage.database,
            "mail": f"{stage.mail.url.partition('?')[0]}, a real SMTP server",
            "worker": f"process {stage.worker.pid}; mails wait {EMAIL_WINDOW.seconds} s for it",
        }
    )
    calls: list[Called] = []
    before = ""
    for beat in story(Agent(stage.app)):
        between()
        outcome = ""
        match beat:
            case Called():
                calls.append(beat)
                _require_expected(beat)
            case Awaited():
                outcome = _await(stage, beat, between=between)
            case Compared(before=True):
                before = digest_at(stage.app.database_url)
                outcome = f"all rows of the shop have the digest {before[:16]}"
            case Compared():
                outcome = _compare(before, digest_at(stage.app.database_url))
            case _:
                pass
        teller.beat(beat, outcome=outcome)
    teller.end(_ending(stage, calls))


def _require_expected(beat: Called) -> None:
    word = word_of(beat.answer)
    if word != beat.expects:
        raise StoryBroke(
            f"{beat.tool} was answered {word!r}, and the story has {beat.expects!r} there: "
            f"{beat.answer.to_json()}"
        )


def _await(stage: Stage, beat: Awaited, *, between: Callable[[], None]) -> str:
    """What became of an intent once the worker was through with it."""
    pause = threading.Event()
    for _ in range(int(CARRIED_OUT_SECONDS_MAX / LOOK_SECONDS)):
        answer = stage.app.status(beat.ref)
        if answer.status not in ("scheduled", "in_progress"):
            return f"{EMAIL_WINDOW.seconds} s later: {beat.ref} is {word_of(answer)}"
        if stage.worker.poll() is not None:
            raise StoryBroke(
                f"the worker has ended early; its log ends:\n{_tail(stage.worker_log)}"
            )
        pause.wait(LOOK_SECONDS)
        between()
    raise StoryBroke(
        f"{beat.ref} was not carried out within {CARRIED_OUT_SECONDS_MAX:g} s; the worker's log "
        f"ends:\n{_tail(stage.worker_log)}"
    )


def _compare(before: str, after: str) -> str:
    if before != after:
        raise StoryBroke(
            f"the rows that came back are not the ones that left: digest {after[:16]}, expected "
            f"{before[:16]}"
        )
    return f"all rows have the digest {after[:16]} again: equal in every column"


def _ending(stage: Stage, calls: list[Called]) -> dict[str, Any]:
    """What there is at the end, checked: mails, refunds, and what the log proves."""
    sent = _subjects_expected(calls)
    stage.mail.wait_for_messages(len(sent))
    mails = stage.mail.messages
    if sorted(mail.subject for mail in mails) != sent:
        raise StoryBroke(f"the mailbox has {[mail.subject for mail in mails]}; expected {sent}")
    refunds = len(stage.payments.refunds)
    return {
        "mailbox": [mail_told(mail) for mail in mails],
        "absent": _absent(calls),
        "refunds": refunds,
        "waiting": _waiting(calls),
        "verify": _verify(stage),
    }


def _subjects_expected(calls: list[Called]) -> list[str]:
    """One mail for each email that was recorded and not taken back."""
    kept = _emails(calls).keys() - _taken_back(calls)
    arguments = [_emails(calls)[ref] for ref in kept]
    return sorted(SUBJECTS[one["template"]].format(order_id=one["order_id"]) for one in arguments)


def _absent(calls: list[Called]) -> dict[str, str]:
    absent: dict[str, str] = {}
    for ref, arguments in _emails(calls).items():
        name = f"{arguments['template']} for {arguments['order_id']}"
        repeats = sum(call.answer.ref == ref and call.answer.replayed for call in calls)
        if ref in _taken_back(calls):
            absent[name] = "taken back before it left, and not sent by the late retry either"
        elif repeats:
            absent[f"a second {name}"] = "the repeated call was replayed: one intent, one mail"
    return absent


def _emails(calls: list[Called]) -> dict[str, Mapping[str, Any]]:
    """The arguments of each email that was recorded, by its ref."""
    return {
        call.answer.ref: call.arguments
        for call in calls
        if call.tool == "send_customer_email" and call.answer.ref and not call.answer.replayed
    }


def _taken_back(calls: list[Called]) -> set[str]:
    return {
        call.arguments["ref"]
        for call in calls
        if call.tool == "restore" and call.answer.status == "done"
    }


def _waiting(calls: list[Called]) -> dict[str, str]:
    return {
        call.answer.ref: call.answer.summary
        for call in calls
        if call.tool == "refund_charge"
        and call.answer.ref
        and not call.answer.replayed
        and call.answer.error is None
    }


def _verify(stage: Stage) -> dict[str, Any]:
    verdict = stage.app.verify()
    if verdict.problems:
        raise StoryBroke(f"the log does not prove what it says: {verdict.problems[0]}")
    counted = f"{verdict.intents} intents, {verdict.events} events"
    return {
        "intents": verdict.intents,
        "events": verdict.events,
        "problems": [],
        "summary": f"{counted}, every one proved and none changed",
    }


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join(lines[-LOG_LINES_SHOWN:]) or "(nothing)"


if __name__ == "__main__":
    sys.exit(main(json_output="--json" in sys.argv[1:]))
