"""Every answer of a server at every step, and what it proves (the table of smtp.delivery)."""

import pytest

from takeback.model.errors import NotDispatched, OutcomeUnknown, Rejected
from tests.connectors.peer import Peer, attempt, handler, scripted

STEPS = ("greeting", "EHLO", "MAIL", "RCPT", "DATA", "message")
USUAL = {
    "greeting": "220 ready",
    "EHLO": "250 here",
    "MAIL": "250 ok",
    "RCPT": "250 ok",
    "DATA": "354 go on",
    "message": "250 queued",
}

ANSWERS = {
    "421": "421 closing",
    "450": "450 later",
    "451 in two lines": "451-greylisted\r\n451 come back",
    "530": "530 5.7.0 authentication required",
    "535": "535 5.7.8 wrong",
    "538": "538 encrypt first",
    "500": "500 what",
    "550": "550 5.1.1 no such user",
    "554": "554 5.7.1 no",
    "571": "571 never",
    "2 for 3": "250 ok",
    "3 for 2": "354 go on",
    "1yz": "150 hm",
    "6yz": "650 hm",
    "no code": "hello",
    "two digits": "25 ok",
    "no space": "2500ok",
    "empty": "",
    "two codes": "250-ok\r\n550 no",
    "binary": "\ufffd\ufffd\ufffd",
}
GARBAGE = {"1yz", "6yz", "no code", "two digits", "no space", "empty", "two codes", "binary"}
SESSION = {"greeting", "EHLO"}


def expected(step: str, answer: str) -> type[Exception] | None:
    """The table of the module's docstring, once more and independently."""
    if answer == "2 for 3":
        return NotDispatched if step in ("greeting", "DATA") else None
    if answer == "3 for 2":
        if step == "DATA":
            return None
        return OutcomeUnknown if step == "message" else NotDispatched
    if answer in GARBAGE:
        return OutcomeUnknown if step == "message" else NotDispatched
    if answer in ("500", "550", "554", "571") and step not in SESSION:
        return Rejected
    return NotDispatched


class Dialogue:
    """A server that answers as usual but at one step; it counts what it says it took."""

    def __init__(self, step: str, answer: str) -> None:
        self.answers = {**USUAL, step: answer}
        self.accepted = 0

    def __call__(self, peer: Peer) -> None:
        if not self.says(peer, "greeting"):
            return
        while True:
            try:
                line = peer.hear()
            except ConnectionError:
                return
            command = line.split()[0].upper()
            if command == "HELO":
                command = "EHLO"
            if command == "QUIT":
                peer.say("221 bye")
                return
            if not self.says(peer, command):
                continue
            if command == "DATA":
                self.take_body(peer)

    def says(self, peer: Peer, step: str) -> bool:
        peer.say(self.answers[step])
        return self.answers[step][:3] in (USUAL[step][:3], "250")

    def take_body(self, peer: Peer) -> None:
        if self.answers["DATA"].startswith("354"):
            peer.hear_until(b"\r\n.\r\n")
            self.accepted += self.answers["message"].startswith("250 ")
            peer.say(self.answers["message"])


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("step", STEPS)
def test_each_answer_at_each_step_has_its_outcome(step, answer):
    dialogue = Dialogue(step, ANSWERS[answer])
    outcome = expected(step, answer)
    with scripted(dialogue) as server:
        perform = handler(server.url).perform
        if outcome is None:
            performed = perform(None, attempt())
            assert performed.result["reply"].startswith("250")
        else:
            with pytest.raises(outcome):
                perform(None, attempt())
    assert dialogue.accepted == (outcome is None)


def test_a_refused_recipient_is_named_without_the_servers_words():
    dialogue = Dialogue("RCPT", "550 5.1.1 user unknown, see http://mx.example")
    with scripted(dialogue) as server, pytest.raises(Rejected) as refusal:
        handler(server.url).perform(None, attempt())
    assert refusal.value.message == (
        "The mail server refuses the recipient 'dana@example.com' for good."
    )
    assert "user unknown" in str(refusal.value.__cause__)


def test_a_deferral_tells_the_operator_what_the_server_said():
    dialogue = Dialogue("RCPT", "451-4.7.1 greylisted\r\n451 4.7.1 try again")
    with scripted(dialogue) as server, pytest.raises(NotDispatched) as failure:
        handler(server.url).perform(None, attempt())
    assert "RCPT: 451 4.7.1 greylisted 4.7.1 try again" in str(failure.value)


def test_a_missing_login_is_the_operators_matter_and_rejects_no_mail():
    dialogue = Dialogue("MAIL", "530 5.7.0 Authentication required")
    with scripted(dialogue) as server, pytest.raises(NotDispatched, match="Authentication"):
        handler(server.url).perform(None, attempt())


def test_a_server_without_ehlo_is_spoken_to_with_helo():
    def script(peer: Peer) -> None:
        peer.say("220 old")
        assert peer.hear().lower().startswith("ehlo ")
        peer.say("502 what")
        assert peer.hear().lower().startswith("helo ")
        peer.say("250 hello")
        peer.take_envelope()
        peer.hear()
        peer.say("354 go on")
        peer.hear_until(b"\r\n.\r\n")
        peer.say("250 ok")
        peer.hear()

    with scripted(script) as server:
        handler(server.url).perform(None, attempt())
    assert server.heard[2] == "MAIL FROM:<shop@example.com>"


def test_the_size_is_said_where_it_is_asked_for_so_that_too_much_is_refused_unsent():
    def script(peer: Peer) -> None:
        peer.open_session("SIZE 100")
        assert " SIZE=" in peer.hear()
        peer.say("552 5.3.4 too big")
        peer.hear()

    with scripted(script) as server, pytest.raises(Rejected):
        handler(server.url).perform(None, attempt())
    assert server.heard[-1] == "QUIT"


def test_one_refused_recipient_of_two_keeps_the_mail_from_both():
    def script(peer: Peer) -> None:
        peer.open_session()
        for reply in ("250 ok", "250 ok", "550 no such user"):
            peer.hear()
            peer.say(reply)
        peer.hear()

    with scripted(script) as server, pytest.raises(Rejected, match=r"b@example\.com"):
        handler(server.url, to=("a@example.com", "b@example.com")).perform(None, attempt())
    assert server.heard[-1] == "QUIT"


def test_commands_are_bare_addresses_and_ehlo_names_this_end():
    dialogue = Dialogue("message", "250 ok")
    with scripted(dialogue) as server:
        handler(server.url).perform(None, attempt())
    assert server.heard == [
        "ehlo [127.0.0.1]",
        "MAIL FROM:<shop@example.com>",
        "RCPT TO:<dana@example.com>",
        "DATA",
        "QUIT",
    ]


def test_a_given_name_is_said_in_ehlo():
    with scripted(Dialogue("message", "250 ok")) as server:
        handler(f"{server.url}&helo=worker-1.example.com").perform(None, attempt())
    assert server.heard[0] == "ehlo worker-1.example.com"
