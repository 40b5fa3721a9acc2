"""Handing one message over, and what each way of failing proves.

    what happened                                                  raised
    ─────────────────────────────────────────────────────────────────────────────────────────────
    host unknown, connection refused, timeout or drop before
      the final dot was written, however far the body had got      NotDispatched
    a reply that makes no sense, before the final dot              NotDispatched
    greeting, EHLO, STARTTLS or AUTH refused (4xx or 5xx), TLS
      failed, STARTTLS missing where it is required                NotDispatched   (an operator)
    MAIL, RCPT, DATA refused with 530, 534, 535 or 538             NotDispatched   (an operator)
    MAIL, RCPT, DATA or the message itself deferred (4xx)          NotDispatched
    MAIL, RCPT, DATA or the message itself refused (5xx)           Rejected
    an address, a header or a body that can't be sent              Rejected
    an address that is not ASCII, and no SMTPUTF8                  Rejected
    timeout, drop or nonsense after the first byte of the dot      OutcomeUnknown
    the message accepted (2xx); whatever becomes of QUIT           nothing: it is sent

What a server says about the session is the operator's matter: nothing was said about the message,
and once the set-up is mended the same message can leave. So a wrong password does not reject a
mail for ever. What it says about the message is final at 5xx.

Half of the attempt's time is kept for the answer to the message: unsent is late, unanswered is in
doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, NoReturn

from takeback.connectors.smtp.connection import Deadline
from takeback.connectors.smtp.conversation import (
    Conversation,
    ReplyRefused,
    SessionUnusable,
    Step,
    readable,
)
from takeback.connectors.smtp.letter import Email, Letter, write
from takeback.connectors.smtp.server import SmtpServer
from takeback.model.errors import InvalidSettings, NotDispatched, OutcomeUnknown, Rejected
from takeback.model.handler import Affected, Attempt, Handler, Performed

_FINAL_DOT = b".\r\n"

# Said at any command to a client that has to log in or encrypt first (RFC 4954 §6, RFC 3207 §4).
_SESSION_CODES = frozenset({530, 534, 535, 538})
_MESSAGE_STEPS = frozenset({Step.MAIL, Step.RCPT, Step.DATA, Step.MESSAGE})

_HANDOVER_SHARE = 0.5


def mailer(
    server: SmtpServer | Callable[[], SmtpServer],
    compose: Callable[[Any, Attempt], Email],
) -> Handler:
    """A handler that sends one email per intent: ``compose(arguments, attempt)`` says which.

    ``server`` may be a function, asked at each attempt. What ``compose`` raises passes through,
    so it may reject. The result is ``{"message_id": …, "reply": …}``.
    """

    def perform(arguments: Any, attempt: Attempt) -> Performed:
        handover = Deadline(attempt.seconds_max * _HANDOVER_SHARE)
        answer = Deadline(attempt.seconds_max)
        letter = write(compose(arguments, attempt), intent_id=attempt.intent_id)
        settings = server if isinstance(server, SmtpServer) else _current(server)
        reply = _deliver(letter, settings, handover=handover, answer=answer)
        return Performed(
            result={"message_id": letter.message_id, "reply": reply},
            affected=[
                Affected(kind="email", id=one.addr_spec, label=one.display_name or None)
                for one in letter.recipients
            ],
        )

    return Handler(perform=perform)


def _current(server: Callable[[], SmtpServer]) -> SmtpServer:
    try:
        return server()
    except InvalidSettings as exc:
        raise NotDispatched(str(exc)) from exc


def _deliver(letter: Letter, server: SmtpServer, *, handover: Deadline, answer: Deadline) -> str:
    """The server's words on accepting ``letter``."""
    try:
        conversation = Conversation.open(server, handover)
    except OSError as exc:
        _prove(exc, server)
    # Closed without a QUIT where the message has begun: in the middle of a body it would be text.
    with closing(conversation):
        try:
            _hand_over(letter, conversation)
            conversation.deadline = answer
            _end_message(conversation)
        except OSError as exc:
            if isinstance(exc, ReplyRefused) and exc.step is not Step.MESSAGE:
                conversation.part()
            _prove(exc, server)
        return _answer(conversation)


def _hand_over(letter: Letter, conversation: Conversation) -> None:
    """Everything but the final dot: until it returns, the server may deliver nothing."""
    options = f" SIZE={len(letter.content)}" if conversation.has_extn("size") else ""
    if letter.international:
        if not conversation.has_extn("smtputf8"):
            _refuse_international(letter)
        options += " SMTPUTF8 BODY=8BITMIME"
        conversation.command_encoding = "utf-8"
    conversation.ask(f"MAIL FROM:<{letter.sender}>{options}", "2", Step.MAIL)
    for recipient in letter.recipients:
        address = recipient.addr_spec
        conversation.ask(f"RCPT TO:<{address}>", "2", Step.RCPT, about=address)
    conversation.refuse_early_reply(Step.DATA)
    conversation.ask("DATA", "354", Step.DATA)
    conversation.refuse_early_reply(Step.MESSAGE)
    conversation.send(_with_doubled_dots(letter.content))
    conversation.refuse_early_reply(Step.MESSAGE)


def _refuse_international(letter: Letter) -> NoReturn:
    addresses = (letter.sender, *(one.addr_spec for one in letter.recipients))
    odd = [address for address in addresses if not address.isascii()]
    raise Rejected(
        f"The address {(odd or ['in a header'])[0]!r} is not plain ASCII, and the mail server "
        "takes none such (no SMTPUTF8). Use the address's ASCII form, if it has one."
    )


def _with_doubled_dots(content: bytes) -> bytes:
    """``content`` with the leading dot of each line doubled, as RFC 5321 §4.5.2 has it.

    >>> _with_doubled_dots(b".one\\r\\ntwo\\r\\n.\\r\\n")
    b'..one\\r\\ntwo\\r\\n..\\r\\n'
    """
    return (b"\n" + content).replace(b"\n.", b"\n..")[1:]


def _end_message(conversation: Conversation) -> None:
    """Writes the final dot, and knows whether any of it may have left."""
    within = conversation.deadline.sooner(conversation.server.timeout_seconds)
    conversation.connection.settimeout(within.seconds_left())
    try:
        written = conversation.connection.send(_FINAL_DOT)
    except OSError as exc:
        if not conversation.is_encrypted:
            # A socket that fails to send has taken no byte.
            raise
        # TLS writes records: part of one may be out although all of it failed.
        raise OutcomeUnknown("the connection failed at the end of the message") from exc
    try:
        conversation.send(_FINAL_DOT[written:])
    except OSError as exc:
        raise OutcomeUnknown("the connection failed at the end of the message") from exc


def _answer(conversation: Conversation) -> str:
    try:
        code, reply = conversation.getreply()
    except OSError as exc:
        raise OutcomeUnknown(
            f"the whole message was handed over, and its answer was lost: {_describe(exc)}"
        ) from exc
    words = readable(reply)
    if 300 <= code < 400:
        raise OutcomeUnknown(f"the answer to the whole message makes no sense: {code} {words}")
    conversation.part()
    if code >= 400:
        _refuse(ReplyRefused(step=Step.MESSAGE, code=code, text=words))
    return f"{code} {words}".rstrip()


def _prove(exc: OSError, server: SmtpServer) -> NoReturn:
    """What a failure before the final dot proves."""
    if isinstance(exc, ReplyRefused):
        _refuse(exc)
    if isinstance(exc, SessionUnusable):
        raise NotDispatched(str(exc)) from exc
    where = f"{server.host}:{server.port}"
    raise NotDispatched(
        f"nothing was sent, the mail server {where} failed: {_describe(exc)}"
    ) from exc


def _refuse(exc: ReplyRefused) -> NoReturn:
    about_message = exc.step in _MESSAGE_STEPS and exc.code not in _SESSION_CODES
    if about_message and exc.code >= 500:
        # For the model; the server's own words travel as the cause, for the operator.
        subject = "message" if exc.about is None else f"recipient {exc.about!r}"
        raise Rejected(f"The mail server refuses the {subject} for good.") from exc
    raise NotDispatched(f"nothing was sent, the mail server says {exc}") from exc


def _describe(exc: OSError) -> str:
    if isinstance(exc, TimeoutError):
        return "no answer in time"
    return exc.strerror or str(exc) or type(exc).__name__
