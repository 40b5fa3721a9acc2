"""Encryption and login: what the settings ask for is had, or nothing is sent."""

import pytest

from takeback.connectors.smtp import SmtpServer, mailer
from takeback.model.errors import NotDispatched, OutcomeUnknown, Rejected
from takeback.testing import Answer, Certificate, Drop, MailServer, MailStage, Stall
from tests.connectors.certificate import make_certificate
from tests.connectors.peer import Peer, attempt, email, handler, scripted


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("ca"))


def send(url: str, *, seconds_max: float = 5.0):
    return handler(url).perform(None, attempt(seconds_max=seconds_max))


@pytest.mark.parametrize("implicit_tls", [False, True])
@pytest.mark.parametrize("credentials", [None, ("shop", "hunter2"), ("ü@x", "p/a:s#s é")])
def test_mail_goes_through_tls_and_login(certificate, implicit_tls, credentials):
    with MailServer(
        certificate=certificate, implicit_tls=implicit_tls, credentials=credentials
    ) as server:
        send(server.url)
        assert [mail.encrypted for mail in server.messages] == [True]


def test_a_required_starttls_is_used(certificate):
    with MailServer(certificate=certificate) as server:
        send(f"{server.url}&tls=starttls")
        assert [mail.encrypted for mail in server.messages] == [True]


def test_without_starttls_mail_leaves_in_plain_text_unless_it_is_required():
    with MailServer() as server:
        send(server.url.replace("tls=none", "timeout=5"))
        assert [mail.encrypted for mail in server.messages] == [False]
        with pytest.raises(NotDispatched, match="offers no STARTTLS"):
            send(server.url.replace("tls=none", "tls=starttls"))
        assert len(server.messages) == 1


@pytest.mark.parametrize("implicit_tls", [False, True])
def test_an_authority_that_is_not_trusted_is_refused(certificate, implicit_tls):
    with MailServer(certificate=certificate, implicit_tls=implicit_tls) as server:
        with pytest.raises(NotDispatched, match=r"not trusted .*cafile="):
            send(server.url.partition("?")[0])
        assert server.messages == []


@pytest.mark.parametrize("implicit_tls", [False, True])
def test_a_certificate_for_another_host_is_refused(tmp_path, implicit_tls):
    other = make_certificate(tmp_path, "mail.example.com")
    with MailServer(certificate=other, implicit_tls=implicit_tls) as server:
        with pytest.raises(NotDispatched, match=r"127\.0\.0\.1.* not trusted"):
            send(server.url)
        assert server.messages == []


def test_a_file_of_authorities_that_has_gone_is_told_to_the_operator(tmp_path):
    server_certificate = make_certificate(tmp_path)
    with MailServer(certificate=server_certificate) as server:
        settings = SmtpServer.from_url(server.url)
        server_certificate.cafile.unlink()
        with pytest.raises(NotDispatched, match="correct cafile="):
            mailer(settings, lambda arguments, attempt: email()).perform(None, attempt())
        assert server.messages == []


@pytest.mark.parametrize("answer", ["454 TLS not available", "501 no", "250 ok", "nonsense"])
def test_a_starttls_that_is_offered_and_fails_is_never_replaced_by_plain_text(answer):
    def script(peer: Peer) -> None:
        peer.open_session("STARTTLS")
        peer.hear()
        peer.say(answer)
        peer.hear_rest()

    with scripted(script) as server:
        with pytest.raises(NotDispatched):
            send(server.url.replace("tls=none", ""))
        server.client_has_given_up()
    assert not any(line.startswith(("MAIL", "AUTH")) for line in server.heard)


def test_a_handshake_that_fails_is_never_replaced_by_plain_text():
    def script(peer: Peer) -> None:
        peer.open_session("STARTTLS")
        peer.hear()
        peer.say("220 go ahead")
        peer.connection.recv(1)
        peer.say("and I can't speak TLS")
        peer.hear_rest()

    with scripted(script) as server:
        with pytest.raises(NotDispatched):
            send(server.url.replace("tls=none", ""))
        server.client_has_given_up()
    assert not any(line.startswith(("MAIL", "AUTH")) for line in server.heard)


def test_what_is_said_in_plain_text_after_starttls_is_refused():
    """Whoever sits in between could otherwise put replies into the encrypted session."""

    def script(peer: Peer) -> None:
        peer.open_session("STARTTLS")
        peer.hear()
        peer.say("220 go ahead", "250 injected")
        peer.hear_rest()

    with scripted(script) as server:
        with pytest.raises(NotDispatched, match="after STARTTLS"):
            send(server.url.replace("tls=none", ""))
        server.client_has_given_up()


def test_a_password_is_not_sent_in_plain_text_unless_allowed():
    def script(peer: Peer) -> None:
        peer.open_session("AUTH PLAIN LOGIN")
        peer.hear_rest()

    with scripted(script) as server:
        with pytest.raises(NotDispatched, match="not sent in plain text"):
            send(f"smtp://shop:hunter2@127.0.0.1:{server.port}")
        server.client_has_given_up()
    assert not any("AUTH" in line for line in server.heard)


def test_login_works_in_plain_text_where_allowed():
    with MailServer(credentials=("shop", "hunter2")) as server:
        send(server.url)
        assert len(server.messages) == 1


def test_a_server_that_knows_login_alone_is_logged_in_to():
    def script(peer: Peer) -> None:
        peer.open_session("AUTH LOGIN")
        for reply in ("334 VXNlcm5hbWU6", "334 UGFzc3dvcmQ6", "235 welcome"):
            peer.hear()
            peer.say(reply)
        peer.take_envelope()
        peer.hear()
        peer.say("354 go on")
        peer.hear_until(b"\r\n.\r\n")
        peer.say("250 ok")
        peer.hear()

    with scripted(script) as server:
        send(f"smtp://shop:hunter2@127.0.0.1:{server.port}?tls=none")
    assert server.heard[1:4] == ["AUTH LOGIN", "c2hvcA==", "aHVudGVyMg=="]


def test_a_wrong_password_is_the_operators_matter_and_is_not_repeated_to_anyone():
    with MailServer(credentials=("shop", "right")) as server:
        url = server.url.replace("right", "wr0ng")
        with pytest.raises(NotDispatched, match="AUTH: 535") as failure:
            send(url)
        assert "wr0ng" not in str(failure.value)
        assert server.messages == []


def test_a_mail_refused_for_want_of_login_is_sent_once_the_login_is_there():
    with MailServer(credentials=("shop", "hunter2")) as server:
        with pytest.raises(NotDispatched, match="530"):
            send(server.url.replace("shop:hunter2@", ""))
        assert server.messages == []
        send(server.url)
        assert len(server.messages) == 1


@pytest.mark.parametrize("offer", ["AUTH XOAUTH2 CRAM-MD5", "SIZE 1000000"])
def test_a_server_that_takes_no_password_is_told_to_the_operator(offer):
    def script(peer: Peer) -> None:
        peer.open_session(offer)
        peer.hear_rest()

    with scripted(script) as server:
        with pytest.raises(NotDispatched, match="takes no password"):
            send(f"smtp://shop:hunter2@127.0.0.1:{server.port}?tls=none")
        server.client_has_given_up()


@pytest.mark.parametrize("answer", ["421 bye", "454 later", "535 no", "500 what", "334 x", "what"])
def test_whatever_is_answered_to_a_password_proves_that_nothing_was_sent(answer):
    def script(peer: Peer) -> None:
        peer.open_session("AUTH PLAIN")
        peer.hear()
        peer.say(answer)
        peer.hear_rest()

    with scripted(script) as server:
        with pytest.raises(NotDispatched) as failure:
            send(f"smtp://shop:hunter2@127.0.0.1:{server.port}?tls=none", seconds_max=1.0)
        server.client_has_given_up()
    assert "hunter2" not in str(failure.value)


@pytest.mark.parametrize("implicit_tls", [False, True])
@pytest.mark.parametrize(
    "fault,outcome,accepted",
    [
        (Drop(at=MailStage.MAIL), NotDispatched, 0),
        (Drop(at=MailStage.DATA), NotDispatched, 0),
        (Drop(at=MailStage.END), OutcomeUnknown, 0),
        (Drop(at=MailStage.ACCEPTED), OutcomeUnknown, 1),
        (Stall(at=MailStage.RCPT), NotDispatched, 0),
        (Stall(at=MailStage.ACCEPTED), OutcomeUnknown, 1),
        (Answer(at=MailStage.END, reply="451 later"), NotDispatched, 0),
        (Answer(at=MailStage.END, reply="554 spam"), Rejected, 0),
    ],
    ids=str,
)
def test_outcomes_are_the_same_through_tls(certificate, implicit_tls, fault, outcome, accepted):
    with MailServer(certificate=certificate, implicit_tls=implicit_tls) as server:
        server.inject(fault)
        with pytest.raises(outcome):
            send(f"{server.url}&timeout=0.4")
        assert len(server.messages) == accepted
        assert server.pending_faults == ()
