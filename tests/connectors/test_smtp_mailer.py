"""One email per intent, through a real server, with every fault it can make."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from takeback.connectors.smtp import SmtpServer, mailer
from takeback.model.errors import InvalidSettings, NotDispatched, OutcomeUnknown, Rejected
from takeback.model.handler import Affected
from takeback.testing import Answer, Drop, MailServer, MailStage, Stall
from tests.connectors.peer import attempt, email, handler


def test_a_mail_arrives_as_it_was_written():
    with MailServer() as server:
        performed = handler(
            server.url,
            subject="Ihre Rückzahlung – 12 €",
            text="Grüße\n\n.\n..a dot\nFrom me\nend",
        ).perform(None, attempt(intent_id="0199-7abc"))
        [mail] = server.messages
    assert mail.sender == "shop@example.com"
    assert mail.recipients == ("dana@example.com",)
    assert mail.subject == "Ihre Rückzahlung – 12 €"
    assert mail.text == "Grüße\n\n.\n..a dot\nFrom me\nend"
    assert mail.message_id == "<0199-7abc@example.com>"
    assert performed.result == {
        "message_id": "<0199-7abc@example.com>",
        "reply": "250 2.0.0 accepted <0199-7abc@example.com>",
    }
    assert performed.affected == [Affected(kind="email", id="dana@example.com", label="Dana Ruiz")]


def test_the_message_id_is_equal_for_each_attempt_and_differs_between_intents():
    with MailServer() as server:
        perform = handler(server.url).perform
        perform(None, attempt(number=1, intent_id="0199-a"))
        perform(None, attempt(number=2, intent_id="0199-a"))
        perform(None, attempt(number=1, intent_id="0199-b"))
        ids = [mail.message_id for mail in server.messages]
    assert ids == ["<0199-a@example.com>", "<0199-a@example.com>", "<0199-b@example.com>"]


def test_an_email_is_composed_from_the_arguments_and_the_attempt():
    with MailServer() as server:
        send = mailer(
            SmtpServer.from_url(server.url),
            lambda arguments, attempt: email(to=arguments["to"], subject=attempt.ref),
        )
        send.perform({"to": "zoe@example.com"}, attempt())
        [mail] = server.messages
    assert (mail.recipients, mail.subject) == (
        ("zoe@example.com",),
        "send_customer_email-7F3K9QDM",
    )


def test_several_recipients_get_one_message_and_are_each_affected():
    with MailServer() as server:
        performed = handler(server.url, to=("a@example.com", "B <b@example.com>")).perform(
            None, attempt()
        )
        [mail] = server.messages
    assert mail.recipients == ("a@example.com", "b@example.com")
    assert [(one.id, one.label) for one in performed.affected] == [
        ("a@example.com", None),
        ("b@example.com", "B"),
    ]


def test_a_server_given_as_a_function_is_asked_at_each_attempt():
    with MailServer() as first, MailServer() as second:
        servers = [first, second]
        send = mailer(
            lambda: SmtpServer.from_url(servers.pop(0).url), lambda arguments, attempt: email()
        )
        send.perform(None, attempt())
        send.perform(None, attempt())
        assert (len(first.messages), len(second.messages)) == (1, 1)


def test_a_setting_that_is_wrong_by_now_proves_that_nothing_was_sent():
    send = mailer(lambda: SmtpServer.from_url("mail"), lambda arguments, attempt: email())
    with pytest.raises(NotDispatched, match="scheme") as failure:
        send.perform(None, attempt())
    assert isinstance(failure.value.__cause__, InvalidSettings)


@pytest.mark.parametrize(
    "reason", [Rejected("order O-9 is not ours"), NotDispatched("template is not there yet")]
)
def test_what_compose_says_of_the_effect_passes_through(reason):
    def compose(arguments, attempt):
        raise reason

    with MailServer() as server:
        with pytest.raises(type(reason)) as failure:
            mailer(SmtpServer.from_url(server.url), compose).perform(None, attempt())
        assert failure.value is reason
        assert server.messages == []


@pytest.mark.parametrize(
    "changes",
    [
        {"to": "dana@example.com\r\nBcc: eve@example.com"},
        {"subject": "a\nb"},
        {"to": "nobody"},
        {"headers": (("Bcc", "eve@example.com"),)},
    ],
)
def test_what_can_not_be_sent_as_it_is_opens_no_connection(changes):
    nowhere = "smtp://127.0.0.1:1?tls=none"
    with pytest.raises(Rejected):
        handler(nowhere, **changes).perform(None, attempt())


@pytest.mark.parametrize("to", ["é@example.com", "dana@bücher.example"])
def test_an_international_address_leaves_where_the_server_takes_it(to):
    with MailServer(smtputf8=True) as server:
        handler(server.url, to=to).perform(None, attempt())
        assert [mail.recipients for mail in server.messages] == [(to,)]
    with MailServer(smtputf8=False) as server:
        with pytest.raises(Rejected, match="not plain ASCII") as refusal:
            handler(server.url, to=to).perform(None, attempt())
        assert to in refusal.value.message
        assert server.messages == []
        handler(server.url, to="Zoë <zoe@example.com>").perform(None, attempt())
        assert len(server.messages) == 1


ANSWERED = [MailStage.CONNECT, MailStage.MAIL, MailStage.RCPT, MailStage.DATA, MailStage.END]
FAULTS = [
    *((Answer(at=stage, reply="451 4.7.1 later"), NotDispatched, 0) for stage in ANSWERED),
    *((Answer(at=stage, reply="421 4.3.2 closing"), NotDispatched, 0) for stage in ANSWERED),
    *((Answer(at=stage, reply="550 5.7.1 no"), Rejected, 0) for stage in ANSWERED[1:]),
    (Answer(at=MailStage.CONNECT, reply="554 5.7.1 no service for you"), NotDispatched, 0),
    *((Drop(at=stage), NotDispatched, 0) for stage in ANSWERED[:-1]),
    *((Stall(at=stage), NotDispatched, 0) for stage in ANSWERED[:-1]),
    (Drop(at=MailStage.END), OutcomeUnknown, 0),
    (Stall(at=MailStage.END), OutcomeUnknown, 0),
    (Drop(at=MailStage.ACCEPTED), OutcomeUnknown, 1),
    (Stall(at=MailStage.ACCEPTED), OutcomeUnknown, 1),
]


@pytest.mark.parametrize("fault,outcome,accepted", FAULTS, ids=str)
def test_each_fault_of_a_server_has_its_outcome_and_the_next_mail_arrives(fault, outcome, accepted):
    with MailServer() as server:
        server.inject(fault)
        with pytest.raises(outcome):
            handler(f"{server.url}&timeout=0.3").perform(None, attempt())
        assert len(server.messages) == accepted
        assert server.pending_faults == ()
        handler(server.url).perform(None, attempt())
        assert len(server.messages) == accepted + 1


def test_a_read_timeout_after_acceptance_is_one_delivery_in_doubt():
    """Composio #3586, #3654: the server accepts DATA and stalls; a resend made two emails of it."""
    with MailServer() as server:
        server.inject(Stall(at=MailStage.ACCEPTED))
        with pytest.raises(OutcomeUnknown):
            handler(server.url).perform(None, attempt(seconds_max=0.5))
        assert len(server.messages) == 1


def test_a_slow_answer_within_the_attempt_is_a_success():
    with MailServer() as server, ThreadPoolExecutor() as pool:
        server.inject(Stall(at=MailStage.ACCEPTED))
        sending = pool.submit(handler(server.url).perform, None, attempt(seconds_max=20.0))
        assert server.wait_for_stall()
        server.release()
        assert sending.result(20).result["reply"].startswith("250")
        assert len(server.messages) == 1


def test_a_stopped_server_proves_that_nothing_was_sent():
    with MailServer() as server:
        server.stop()
        with pytest.raises(NotDispatched, match="refused"):
            handler(server.url).perform(None, attempt())
        server.start()
        handler(server.url).perform(None, attempt())
        assert len(server.messages) == 1


def test_many_mails_at_once_keep_to_themselves():
    together = threading.Barrier(8)
    with MailServer() as server, ThreadPoolExecutor(8) as pool:
        send = mailer(
            SmtpServer.from_url(server.url), lambda arguments, attempt: email(to=arguments)
        )

        def one(number: int) -> str:
            together.wait(20)
            to = f"customer-{number}@example.com"
            performed = send.perform(to, attempt(intent_id=f"0199-{number}", seconds_max=20.0))
            return performed.affected[0].id

        sent = sorted(pool.map(one, range(40)))
        got = {mail.message_id: mail.recipients[0] for mail in server.messages}
    assert sent == sorted(got.values())
    assert got == {f"<0199-{n}@example.com>": f"customer-{n}@example.com" for n in range(40)}
