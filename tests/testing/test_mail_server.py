"""The mail server that tests and the demo use: it counts what it took, and fails as told."""

import smtplib
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from takeback.testing import Answer, Drop, MailServer, MailStage, Stall

MESSAGE = "Subject: hello\r\nMessage-ID: <1@example.com>\r\n\r\nfirst\r\nsecond\r\n"


def send(server: MailServer, *, to: str = "dana@example.com", seconds: float = 10.0) -> None:
    """What any client does; this one is not ours."""
    with smtplib.SMTP("127.0.0.1", server.port, "client", timeout=seconds) as client:
        client.sendmail("shop@example.com", [to], MESSAGE)


def test_a_mail_is_kept_with_its_envelope_headers_and_text():
    with MailServer() as server:
        send(server)
        [mail] = server.messages
    assert (mail.sender, mail.recipients) == ("shop@example.com", ("dana@example.com",))
    assert (mail.subject, mail.message_id) == ("hello", "<1@example.com>")
    assert mail.text == "first\nsecond"
    assert mail.raw == MESSAGE.encode()
    assert not mail.encrypted


def test_a_fault_meets_as_many_messages_as_it_was_meant_for():
    with MailServer() as server:
        server.inject(Answer(at=MailStage.RCPT, reply="550 no"), messages=2)
        for _ in range(2):
            with pytest.raises(smtplib.SMTPRecipientsRefused):
                send(server)
        assert server.pending_faults == ()
        send(server)
        assert len(server.messages) == 1


def test_faults_of_several_stages_do_not_wait_for_each_other():
    with MailServer() as server:
        later = Drop(at=MailStage.DATA)
        server.inject(later)
        server.inject(Answer(at=MailStage.MAIL, reply="451 later"))
        with pytest.raises(smtplib.SMTPSenderRefused):
            send(server)
        assert server.pending_faults == (later,)
        with pytest.raises(smtplib.SMTPServerDisconnected):
            send(server)
        assert server.messages == []


def test_a_mail_whose_answer_is_lost_counts_as_delivered():
    with MailServer() as server:
        server.inject(Drop(at=MailStage.ACCEPTED))
        with pytest.raises(smtplib.SMTPServerDisconnected):
            send(server)
        assert len(server.messages) == 1


def test_a_stalled_session_goes_on_when_released():
    with MailServer() as server, ThreadPoolExecutor() as pool:
        server.inject(Stall(at=MailStage.END))
        sending = pool.submit(send, server)
        assert server.wait_for_stall()
        assert server.messages == []
        send(server, to="other@example.com")
        assert [mail.recipients for mail in server.messages] == [("other@example.com",)]
        server.release()
        sending.result(20)
        assert len(server.messages) == 2


def test_a_stall_ends_with_its_client_and_delivers_nothing():
    with MailServer() as server:
        server.inject(Stall(at=MailStage.END))
        with pytest.raises(smtplib.SMTPServerDisconnected, match="timed out"):
            send(server, seconds=0.2)
        send(server)
        server.release()
        assert len(server.messages) == 1


def test_waiting_for_what_does_not_happen_ends():
    with MailServer() as server:
        assert not server.wait_for_stall(seconds_max=0.0)
        assert not server.wait_for_messages(1, seconds_max=0.0)
        send(server)
        assert server.wait_for_messages(1, seconds_max=0.0)


def test_a_stopped_server_refuses_and_comes_back_on_its_port_with_its_mail():
    with MailServer() as server:
        port = server.port
        send(server)
        server.stop()
        with pytest.raises(ConnectionRefusedError):
            send(server)
        server.start()
        assert server.port == port
        send(server)
        assert len(server.messages) == 2


def test_stopping_cuts_a_client_off_in_the_middle():
    with MailServer() as server, ThreadPoolExecutor() as pool:
        server.inject(Stall(at=MailStage.ACCEPTED))
        sending = pool.submit(send, server)
        assert server.wait_for_stall()
        server.stop()
        with pytest.raises((smtplib.SMTPServerDisconnected, ConnectionError)):
            sending.result(20)
        assert len(server.messages) == 1


def test_stopping_or_starting_twice_changes_nothing():
    server = MailServer()
    server.stop()
    server.start()
    server.start()
    send(server)
    server.stop()
    server.stop()
    assert len(server.messages) == 1


def test_a_port_that_is_taken_is_said_at_once():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = MailServer(port=taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            server.start()


def test_login_is_asked_for_before_a_mail_is_taken():
    with MailServer(credentials=("shop", "hunter2")) as server:
        with pytest.raises(smtplib.SMTPSenderRefused):
            send(server)
        with smtplib.SMTP("127.0.0.1", server.port, "client") as client:
            with pytest.raises(smtplib.SMTPAuthenticationError):
                client.login("shop", "wrong")
            client.login("shop", "hunter2")
            client.sendmail("shop@example.com", ["dana@example.com"], MESSAGE)
        assert len(server.messages) == 1


def test_a_url_carries_the_login_percent_encoded():
    server = MailServer(port=2525, credentials=("sh@op", "a/b:c"))
    assert server.url == "smtp://sh%40op:a%2Fb%3Ac@127.0.0.1:2525?tls=none"


@pytest.mark.parametrize("stage", [MailStage.BODY, MailStage.ACCEPTED])
def test_an_answer_where_a_server_is_silent_is_refused(stage):
    with pytest.raises(ValueError, match="use END"):
        Answer(at=stage, reply="550 no")


def test_implicit_tls_without_a_certificate_is_refused():
    with pytest.raises(ValueError, match="certificate"):
        MailServer(implicit_tls=True)


def test_a_fault_for_no_message_is_refused():
    with pytest.raises(ValueError, match="messages=0"):
        MailServer().inject(Drop(at=MailStage.DATA), messages=0)


def test_many_clients_at_once_are_all_counted():
    with MailServer() as server, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: send(server, to=f"c{number}@example.com"), range(48)))
        got = sorted(mail.recipients[0] for mail in server.messages)
    assert got == sorted(f"c{number}@example.com" for number in range(48))
