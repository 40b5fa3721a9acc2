"""Where a connection ends decides what is known: before the final dot nothing was sent, after it
only the server's own answer counts."""

import random
import socket
import threading

import pytest

from takeback.model.errors import NotDispatched, OutcomeUnknown
from tests.connectors.peer import Peer, attempt, handler, scripted

# More than any pair of socket buffers holds, so that a client is still writing when it ends.
LARGE = "0123456789abcdef" * 4 + "\n"
LARGE_TEXT = LARGE * (8_000_000 // len(LARGE))


def endings(peer: Peer) -> dict:
    return {"reset": peer.drop, "closed": peer.connection.close, "stalled": peer.stall}


ENDINGS = ("reset", "closed", "stalled")


def perform(url: str, *, seconds_max: float = 1.0, **changes):
    return handler(url, **changes).perform(None, attempt(seconds_max=seconds_max))


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("replies", range(5))
def test_an_end_before_the_body_proves_that_nothing_was_sent(replies, ending):
    def script(peer: Peer) -> None:
        for reply in ("220 ready", "250 here", "250 ok", "250 ok", "354 go on")[:replies]:
            peer.say(reply)
            peer.hear()
        endings(peer)[ending]()

    with scripted(script) as server:
        with pytest.raises(NotDispatched):
            perform(server.url)
        server.client_has_given_up()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("bytes_read", [0, 1, 100, 1_000_000])
def test_an_end_in_the_middle_of_the_body_proves_that_nothing_was_sent(bytes_read, ending):
    def script(peer: Peer) -> None:
        peer.open_session()
        peer.take_envelope()
        peer.hear()
        peer.say("354 go on")
        while bytes_read and len(peer.unread) < bytes_read:
            peer.unread += peer.connection.recv(bytes_read)
        endings(peer)[ending]()

    with scripted(script, buffer_bytes=4096) as server:
        with pytest.raises(NotDispatched):
            perform(f"{server.url}&timeout=0.3", seconds_max=60.0, text=LARGE_TEXT)
        server.client_has_given_up()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("said", ["", "2", "250", "250 ok", "250-ok\r\n", "250-ok\r\n250 "])
def test_an_end_after_the_final_dot_without_a_whole_answer_is_unknown(said, ending):
    def script(peer: Peer) -> None:
        peer.take_message()
        peer.connection.sendall(said.encode())
        endings(peer)[ending]()

    with scripted(script) as server:
        with pytest.raises(OutcomeUnknown):
            perform(server.url)
        server.client_has_given_up()


@pytest.mark.parametrize("ending", [*ENDINGS, "garbage", "late no"])
def test_an_accepted_message_stays_accepted_whatever_follows(ending):
    """Composio #3586's mirror image: a failing QUIT makes nobody send twice."""

    def script(peer: Peer) -> None:
        peer.take_message()
        peer.say("250 2.0.0 queued as 4F3")
        if ending == "garbage":
            peer.say("hello?", "550 no")
        elif ending == "late no":
            peer.hear()
            peer.say("554 no after all")
        else:
            endings(peer)[ending]()

    with scripted(script) as server:
        performed = perform(server.url)
        server.client_has_given_up()
    assert performed.result["reply"] == "250 2.0.0 queued as 4F3"


@pytest.mark.parametrize(
    "bytes_in_body", [10, 4_000, 20_000, 100_000, 400_000, 1_000_000, 2_500_000, 5_000_000]
)
def test_a_proof_is_claimed_only_while_no_byte_of_the_final_dot_is_out(bytes_in_body):
    """The server reads only after the client has given up: then all that ever left is known."""
    left: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.open_session()
        peer.take_envelope()
        peer.hear()
        peer.say("354 go on")
        left.append(peer.hear_rest())

    text = LARGE * (bytes_in_body // len(LARGE))
    with scripted(script, buffer_bytes=4096) as server:
        with pytest.raises((NotDispatched, OutcomeUnknown)) as outcome:
            perform(f"{server.url}&timeout=0.3", seconds_max=60.0, text=text)
        server.client_has_given_up()
    assert (b"\r\n.\r\n" in left[0]) is (outcome.type is OutcomeUnknown)


@pytest.mark.parametrize("early", ["250 queued", "354 go on", "451 later", "hello"])
def test_an_answer_that_came_before_the_final_dot_is_not_taken_for_the_answer_to_it(early):
    """A doubled reply line of a confused server or proxy would otherwise read as 'delivered'."""

    def script(peer: Peer) -> None:
        peer.open_session()
        peer.take_envelope()
        peer.hear()
        peer.say("354 go on", early)
        peer.hear_rest()

    with scripted(script) as server:
        with pytest.raises(NotDispatched):
            perform(server.url)
        server.client_has_given_up()


def test_replies_that_run_ahead_are_noticed_before_the_body():
    def script(peer: Peer) -> None:
        peer.open_session()
        peer.hear()
        peer.say("250 ok", "250 ok", "354 go on", "250 queued")
        peer.hear_rest()

    with scripted(script) as server:
        with pytest.raises(NotDispatched):
            perform(server.url)
        server.client_has_given_up()
    assert "DATA" not in server.heard


@pytest.mark.parametrize("at", ["greeting", "message"])
def test_a_server_that_drips_its_answer_does_not_outlast_the_attempt(at):
    def script(peer: Peer) -> None:
        if at == "message":
            peer.take_message()
        while not peer.given_up.wait(0.02):
            try:
                peer.connection.sendall(b"2")
            except ConnectionError:
                return

    with scripted(script) as server:
        with pytest.raises(OutcomeUnknown if at == "message" else NotDispatched):
            perform(server.url)
        server.client_has_given_up()


@pytest.mark.parametrize("flood", [b"250-and so on\r\n", b"x"])
@pytest.mark.parametrize("at", ["greeting", "message"])
def test_an_answer_without_an_end_is_cut_off(at, flood):
    def script(peer: Peer) -> None:
        if at == "message":
            peer.take_message()
        try:
            while not peer.given_up.is_set():
                peer.connection.sendall(flood * 1000)
        except ConnectionError:
            pass

    with scripted(script) as server:
        with pytest.raises(OutcomeUnknown if at == "message" else NotDispatched):
            perform(server.url, seconds_max=20.0)
        server.client_has_given_up()


def test_a_timeout_of_the_settings_ends_a_step_before_the_attempt_would():
    def script(peer: Peer) -> None:
        peer.take_message()
        peer.stall()

    with scripted(script) as server:
        with pytest.raises(OutcomeUnknown):
            perform(f"{server.url}&timeout=0.2", seconds_max=600.0)
        server.client_has_given_up()


def test_without_time_for_an_answer_the_message_is_not_begun():
    with scripted(lambda peer: None) as server, pytest.raises(NotDispatched):
        perform(server.url, seconds_max=0.0)
    assert not server.was_met


def test_a_refused_connection_proves_that_nothing_was_sent():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(NotDispatched, match="refused"):
        perform(f"smtp://127.0.0.1:{port}?tls=none")


def test_an_unknown_host_proves_that_nothing_was_sent(monkeypatch):
    def unknown(*args, **options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(NotDispatched, match="not known"):
        perform("smtp://mail.nowhere.example")


def test_a_resolver_that_hangs_does_not_outlast_the_attempt(monkeypatch):
    late = threading.Event()

    def hanging(*args, **options):
        late.wait(20)
        raise socket.gaierror(socket.EAI_AGAIN, "late")

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    with pytest.raises(NotDispatched, match="in time"):
        perform("smtp://mail.example.com", seconds_max=0.2)
    late.set()


def test_the_next_address_is_tried_when_the_first_refuses(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = listener.getsockname()

    def script(peer: Peer) -> None:
        peer.take_message()
        peer.say("250 ok")
        peer.hear()

    with scripted(script) as server:
        both = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", address)
            for address in (closed, ("127.0.0.1", server.port))
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: both)
        assert perform("smtp://mail.example.com?tls=none", seconds_max=5.0)


@pytest.mark.parametrize("round_", range(20))
def test_a_reset_at_any_byte_never_proves_what_the_server_has_read(round_, rng: random.Random):
    """Whatever the server read up to the dot and then reset: it may have kept it."""
    cut = rng.randrange(1, 600)
    whole: list[bool] = []

    def script(peer: Peer) -> None:
        peer.open_session()
        peer.take_envelope()
        peer.hear()
        peer.say("354 go on")
        while len(peer.unread) < cut:
            received = peer.connection.recv(cut - len(peer.unread))
            if not received:
                break
            peer.unread += received
            if peer.unread.endswith(b"\r\n.\r\n"):
                break
        whole.append(peer.unread.endswith(b"\r\n.\r\n"))
        peer.drop()

    with scripted(script) as server:
        with pytest.raises((NotDispatched, OutcomeUnknown)) as outcome:
            perform(server.url, text="x" * 60)
        server.client_has_given_up()
    if whole[0]:
        assert outcome.type is OutcomeUnknown
