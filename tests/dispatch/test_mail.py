"""Mail that a real server has taken without saying so: one delivery, in doubt, and never again."""

from types import SimpleNamespace

import pytest

from takeback.connectors.smtp import Email, SmtpServer, mailer
from takeback.declare import BLIND, Remote
from takeback.testing import Answer, Drop, MailServer, MailStage, Stall
from tests.dispatch.office import Office, World, row

ATTEMPT_SECONDS_MAX = 1.0


def compose(arguments, attempt) -> Email:
    return Email(
        sender="post@example.com", to=f"{arguments.to}@example.com", subject="Hello", text="Hello."
    )


@pytest.fixture
def mail():
    with MailServer() as server:
        yield server


@pytest.fixture
def post(database_url, clock, mail):
    rows = [row("send_letter", Remote(upstream=BLIND, attempt_seconds_max=ATTEMPT_SECONDS_MAX))]
    handlers = SimpleNamespace(send_letter=mailer(SmtpServer.from_url(mail.url), compose))
    office = Office(database_url, World(), rows=rows, handlers=handlers, pause=clock.advance)
    yield office
    office.close()


def drain(office, clock):
    office.worker_of("w", sleep=clock.advance).run(drain=True)


@pytest.mark.parametrize(
    "fault", [Stall(at=MailStage.ACCEPTED), Drop(at=MailStage.ACCEPTED)], ids=["stall", "drop"]
)
def test_a_mail_that_may_have_gone_is_in_doubt_and_not_sent_again(fault, post, mail, clock):
    """composio #3586, #3654: a read timeout was taken for a failure, and two mails left."""
    mail.inject(fault)
    ref = post.call(None, "send_letter", {"to": "dana"}).ref

    drain(post, clock)
    mail.release()
    again = post.call(None, "send_letter", {"to": "dana"})
    clock.advance(3600)
    drain(post, clock)

    assert post.status(ref).status == "in_doubt" and len(mail.messages) == 1
    assert post.state(ref) == "parked", "nobody but a person can say more"
    assert (again.status, again.ref) == ("in_doubt", ref)


def test_a_mail_that_provably_did_not_go_is_sent_by_a_later_attempt(post, mail, clock):
    mail.inject(Answer(at=MailStage.RCPT, reply="451 4.3.0 try again later"))
    ref = post.call(None, "send_letter", {"to": "dana"}).ref

    drain(post, clock)
    assert post.state(ref) == "due" and mail.messages == []
    clock.advance(600)
    drain(post, clock)

    assert post.state(ref) == "succeeded" and len(mail.messages) == 1
