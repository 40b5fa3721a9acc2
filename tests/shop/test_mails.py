"""``send_customer_email``: held, called back in time, or sent once by a real SMTP server."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from takeback.dispatch.dispatcher import Dispatcher
from takeback.dispatch.pace import Pace
from takeback.testing import Answer, Drop, MailStage, Stall

DANA = "dana@example.com"


def send(shop, *, app=None, tx=None, **said):
    mail = {"to": DANA, "template": "refund_issued", "order_id": "O-1", **said}
    return (app or shop.app).call(
        tx, "send_customer_email", mail, run="run-1", principal="agent:support"
    )


@pytest.fixture
def hasty(shop):
    """The same shop, whose mails wait for nothing."""
    app = shop.open(timedelta(0))
    yield app
    app.close()


def test_a_mail_is_held_and_says_until_when_it_can_be_called_back(shop, mail):
    """S2.23."""
    held = send(shop)
    assert held.status == "scheduled"
    assert held["affected"] == [{"kind": "email", "id": DANA, "label": DANA}]
    until = held.restore["until"]
    assert held.summary == (
        f"Email 'refund_issued' to {DANA} leaves at {until[11:]} unless taken back."
    )
    assert held.restore["does"] == "cancels the email before it leaves"
    assert held.restore["leaves"] == []
    age = f"SELECT CAST('{until}' AS timestamptz) - now()"
    assert timedelta(seconds=55) < shop.value(age) <= timedelta(seconds=60)
    shop.work()
    assert mail.messages == []


def test_a_mail_that_is_due_is_sent_as_the_shop_writes_it(shop, hasty, mail):
    held = send(shop, app=hasty, note="It was our fault, señora.")
    shop.work(hasty)
    (received,) = mail.messages
    assert received.sender == "support@shop.example"
    assert received.recipients == (DANA,)
    assert received.subject == "Your refund for order O-1"
    assert "your money for order O-1 back" in received.text
    assert "It was our fault, señora." in received.text
    assert f"X-Takeback-Ref: {held.ref}".encode() in received.raw
    intent = shop.app.show(held.ref).entry.intent
    assert received.message_id == f"<{intent.id}@shop.example>"
    sent = shop.app.status(held.ref)
    assert (sent.status, sent.summary) == ("done", f"Email 'refund_issued' to {DANA} was sent.")


@pytest.mark.parametrize("template", ["refund_issued", "order_delayed", "apology"])
def test_every_template_names_the_order(shop, hasty, mail, template):
    send(shop, app=hasty, template=template, order_id="O-7741")
    shop.work(hasty)
    (received,) = mail.messages
    assert "O-7741" in received.subject and "O-7741" in received.text


def test_the_same_mail_twice_is_one_mail(shop, hasty, mail):
    first = send(shop, app=hasty)
    shop.work(hasty)
    again = send(shop, app=hasty)
    shop.work(hasty)
    assert (again.ref, again.replayed, again.status) == (first.ref, True, "done")
    assert len(mail.messages) == 1


def test_another_note_is_told_and_not_sent(shop, hasty, mail):
    send(shop, app=hasty, note="first")
    again = send(shop, app=hasty, note="second")
    assert again["differs"] == [{"field": "note", "first": "first", "now": "second"}]
    shop.work(hasty)
    assert "first" in mail.messages[0].text


def test_another_spelling_of_the_address_is_the_same_mail(shop):
    assert send(shop, to=" Dana@Example.COM ").ref == send(shop).ref


def test_a_mail_that_is_taken_back_never_leaves_whoever_retries(shop, mail, later):
    """S2.23."""
    held = send(shop)
    back = shop.restore(held)
    assert back.status == "done"
    assert shop.app.status(held.ref).status == "taken_back"
    again = send(shop)
    assert (again.ref, again.status, again.replayed) == (held.ref, "taken_back", True)
    later(timedelta(minutes=2))
    shop.work()
    assert mail.messages == []


def test_a_mail_that_was_sent_can_not_be_taken_back_and_says_when_it_left(shop, hasty, mail):
    """S2.23."""
    held = send(shop, app=hasty)
    shop.work(hasty)
    refused = shop.restore(held)
    assert (refused.status, refused.code) == ("refused", "too_late")
    assert shop.app.status(held.ref).restore is None
    assert len(mail.messages) == 1


def test_neither_address_nor_order_is_looked_up(shop, hasty, mail):
    send(shop, app=hasty, to="nobody.we.know@example.org", order_id="2026/0042")
    shop.work(hasty)
    assert mail.messages[0].recipients == ("nobody.we.know@example.org",)


@pytest.mark.parametrize(
    "to", ["dana@example.com\nBcc: eve@example.com", "dana@example.com, eve@example.com", "dana"]
)
def test_what_is_no_single_address_is_refused_and_recorded_nowhere(shop, to):
    refused = send(shop, to=to)
    assert (refused.status, refused.code) == ("refused", "invalid_argument")
    assert refused.error["violations"][0]["field"] == "to"
    assert shop.intents == 0


def test_a_caller_that_rolls_back_has_sent_nothing(shop, hasty, mail):
    """dj-stripe #455."""
    with Session(shop.engine) as session, session.begin() as transaction:
        assert send(shop, app=hasty, tx=session).status == "scheduled"
        transaction.rollback()
    shop.work(hasty)
    assert (mail.messages, shop.intents) == ([], 0)


def test_a_mail_whose_answer_was_lost_is_in_doubt_and_is_not_sent_again(shop, hasty, mail):
    """composio #3586, #3654."""
    mail.inject(Drop(at=MailStage.ACCEPTED))
    held = send(shop, app=hasty)
    shop.work(hasty)
    assert shop.app.status(held.ref).status == "in_doubt"
    assert send(shop, app=hasty).status == "in_doubt"
    shop.work(hasty)
    assert len(mail.messages) == 1


@contextmanager
def worker_process(shop) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that can be killed."""
    program = [
        sys.executable,
        "-m",
        "takeback.cli.main",
        "--app",
        "takeback_shop.app:app",
        "worker",
    ]
    environment = {**os.environ, "TAKEBACK_DATABASE_URL": shop.url}
    process = subprocess.Popen(program, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("stage", "sent"), [(MailStage.ACCEPTED, 1), (MailStage.CONNECT, 0)])
def test_a_mail_whose_worker_is_killed_may_have_left_and_is_not_sent_again(
    shop, hasty, mail, later, stage, sent
):
    """orbit #407, prosper202 #147: a stale claim repeated what was done already."""
    mail.inject(Stall(at=stage))
    held = send(shop, app=hasty)
    with worker_process(shop) as process:
        assert mail.wait_for_stall(seconds_max=60)
        process.kill()
        process.wait()
    assert shop.app.status(held.ref).status == "in_progress"
    later(timedelta(seconds=31))
    for _ in range(2):
        shop.work(hasty)
        assert shop.app.status(held.ref).status == "in_doubt"
        assert send(shop, app=hasty).ref == held.ref
    assert len(mail.messages) == sent


def test_a_mail_whose_worker_dies_between_claiming_and_sending_still_leaves(
    shop, hasty, mail, later
):
    """archestra #5580: marked as done first, and lost in a restart."""
    held = send(shop, app=hasty)
    killed = Dispatcher(hasty.context, Pace(), "killed")
    assert killed.run_once(1).count == 1
    assert shop.app.show(held.ref).entry.intent.state == "claimed"
    later(timedelta(seconds=31))
    shop.work(hasty)
    assert shop.app.status(held.ref).status == "done"
    assert len(mail.messages) == 1


def test_a_step_that_pauses_for_a_person_and_is_run_again_sends_one_mail(shop, hasty, mail):
    """langgraph #6626: a tool that paused made its finished siblings run again."""

    class Paused(Exception):
        pass

    def ask(answer):
        if answer is None:
            raise Paused
        return answer

    def step(answer):
        with ThreadPoolExecutor(2) as beside:
            sent, asked = beside.submit(send, shop, app=hasty), beside.submit(ask, answer)
        return sent.result(), asked.result()

    with pytest.raises(Paused):
        step(None)
    shop.work(hasty)
    again, answer = step("yes")
    shop.work(hasty)
    assert (answer, again.status, again.replayed) == ("yes", "done", True)
    assert (len(mail.messages), shop.intents) == (1, 1)


def test_a_mailbox_that_there_is_not_is_refused_for_good(shop, hasty, mail):
    mail.inject(Answer(at=MailStage.RCPT, reply="550 5.1.1 no such mailbox"))
    held = send(shop, app=hasty)
    shop.work(hasty)
    refused = shop.app.status(held.ref)
    assert (refused.status, refused.code) == ("refused", "provider_rejected")
    assert DANA in refused.error["message"]
    assert mail.messages == []


def test_a_mail_address_of_the_server_that_is_none_leaves_the_mail_due(
    shop, hasty, mail, monkeypatch
):
    monkeypatch.setenv("SHOP_SMTP_URL", "http://127.0.0.1")
    held = send(shop, app=hasty)
    shop.work(hasty)
    assert shop.app.status(held.ref).status == "scheduled"
