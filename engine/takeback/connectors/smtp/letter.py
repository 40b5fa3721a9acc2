"""What is sent: an ``Email`` as its author writes it, and the ``Letter`` of bytes made from it.

Whatever could become another header, another recipient or another command is refused here, before
a socket is opened. A letter's lines end in CRLF and nothing else, so that no server and no relay
can see an end of message where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Any, NoReturn

from takeback.model.errors import Rejected

# Bodies are quoted down to 7 bits, so that no server's 8BITMIME decides whether a mail can leave.
_POLICY = SMTP.clone(cte_type="7bit")

# Written by us: an author's second Subject or Bcc would be a way round the checks.
_OWN_HEADERS = frozenset(
    {"from", "to", "cc", "bcc", "sender", "subject", "date", "message-id", "mime-version"}
)
_HEADER_NAME = re.compile(r"[!-9;-~]+")

# Every character at which some parser ends a line; tab alone is harmless in a header.
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")

_NAMED_ADDRESS = re.compile(r"(?P<name>[^<>]*)<(?P<address>[^<>]*)>")
# RFC 5321 allows more (quoted local parts, address literals); no mailbox of today needs it.
_ATOM = r"[^\s\x00-\x20\x7f()<>@,;:\\\".\[\]]+"
_ADDRESS = re.compile(rf"(?P<user>{_ATOM}(?:\.{_ATOM})*)@(?P<domain>{_ATOM}(?:\.{_ATOM})*)")
_USER_BYTES_MAX = 64  # RFC 5321 §4.5.3.1.1
_ADDRESS_BYTES_MAX = 254  # RFC 5321 §4.5.3.1.3, less the angle brackets


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """One message. An address is ``dana@example.com`` or ``Dana Ruiz <dana@example.com>``.

    ``to`` with several addresses is still one effect: refused for one recipient, it leaves for
    none. ``headers`` holds (name, value) pairs beside those that the connector writes.
    """

    sender: str
    to: str | tuple[str, ...]
    subject: str
    text: str
    html: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """An email ready to be handed over.

    ``sender`` and ``recipients`` are the envelope's bare addresses; ``content`` is the whole
    message, ending in CRLF, before dots are doubled. ``international`` says that an address is
    not ASCII, so that only a server with SMTPUTF8 can take it.
    """

    sender: str
    recipients: tuple[Address, ...]
    message_id: str
    content: bytes
    international: bool


def write(email: Email, *, intent_id: str) -> Letter:
    """The letter of ``email``; its Message-ID is the same for every attempt of the intent.

    Raises Rejected when an address, a header or a body can't be sent as it is.
    """
    sender = _address(email.sender, what="sender")
    recipients = _recipients(email.to)
    message = EmailMessage(policy=_POLICY)
    message["From"] = sender
    message["To"] = recipients
    message["Subject"] = _printable(email.subject, what="the subject")
    message["Date"] = formatdate()
    message["Message-ID"] = message_id = _message_id(intent_id, sender)
    _add_headers(message, email.headers)
    message.set_content(_body(email.text, what="the text"))
    if email.html is not None:
        message.add_alternative(_body(email.html, what="the HTML"), subtype="html")
    international = not all(address.isascii() for address in _addresses(message))
    return Letter(
        sender=sender.addr_spec,
        recipients=recipients,
        message_id=message_id,
        content=_serialise(message, international=international),
        international=international,
    )


def _recipients(to: str | tuple[str, ...]) -> tuple[Address, ...]:
    written = (to,) if isinstance(to, str) else to
    if not written:
        raise Rejected("The email has no recipient.")
    by_address = {
        address.addr_spec: address
        for address in (_address(one, what="recipient") for one in written)
    }
    return tuple(by_address.values())


def _address(written: str, *, what: str) -> Address:
    """The address that ``written`` says, with or without a display name."""
    _printable(written, what=f"the {what}")
    named = _NAMED_ADDRESS.fullmatch(written.strip())
    name, bare = (named["name"], named["address"]) if named else ("", written)
    found = _ADDRESS.fullmatch(bare.strip())
    if found is None:
        raise Rejected(f"The {what} {written!r} is not an email address such as dana@example.com.")
    user, domain = found["user"], found["domain"]
    if len(user.encode()) > _USER_BYTES_MAX or len(bare.encode()) > _ADDRESS_BYTES_MAX:
        raise Rejected(f"The {what} {written!r} is longer than an email address can be.")
    return Address(display_name=_unquoted(name.strip()), username=user, domain=domain)


def _unquoted(name: str) -> str:
    if len(name) >= 2 and name.startswith('"') and name.endswith('"'):
        return re.sub(r"\\(.)", r"\1", name[1:-1])
    return name


def _printable(value: str, *, what: str) -> str:
    if _CONTROL.search(value):
        raise Rejected(
            f"{what.capitalize()} contains a line break or another control character, "
            "which an email header can't carry."
        )
    return _encodable(value, what=what)


def _encodable(value: str, *, what: str) -> str:
    """``value``, unless a lone surrogate in it has no bytes at all."""
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise Rejected(f"{what.capitalize()} contains a character that is no text.") from exc
    return value


def _body(value: str, *, what: str) -> str:
    if "\0" in value:
        raise Rejected(f"{what.capitalize()} contains a NUL character, which no mail can carry.")
    return _encodable(value, what=what)


def _message_id(intent_id: str, sender: Address) -> str:
    try:
        # Only has to be ours and stay the same, so the older IDNA is as good as any.
        domain = sender.domain.encode("idna").decode("ascii")
    except UnicodeError as exc:
        raise Rejected(f"The sender's domain {sender.domain!r} is not a domain name.") from exc
    return f"<{intent_id}@{domain}>"


def _add_headers(message: EmailMessage, headers: Sequence[tuple[str, str]]) -> None:
    for name, value in headers:
        if not _HEADER_NAME.fullmatch(name):
            raise Rejected(f"{name!r} is not the name of an email header.")
        if name.lower() in _OWN_HEADERS or name.lower().startswith("content-"):
            raise Rejected(f"The header {name!r} is written by the connector and can't be set.")
        _printable(value, what=f"the header {name!r}")
        try:
            message[name] = value
        except (MessageError, ValueError, IndexError) as exc:
            _refuse_header(name, exc)


def _refuse_header(name: str, cause: Exception) -> NoReturn:
    raise Rejected(f"The header {name!r} is given twice or can't be read.") from cause


def _addresses(message: EmailMessage) -> list[str]:
    """Every address in any header, Reply-To and its like included."""
    found: list[str] = []
    for header in message.values():
        of_header: tuple[Any, ...] = getattr(header, "addresses", ())
        found.extend(address.addr_spec for address in of_header)
    return found


def _serialise(message: EmailMessage, *, international: bool) -> bytes:
    content = message.as_bytes(policy=_POLICY.clone(utf8=international))
    # The generator keeps a bare CR or LF that stood inside an odd body.
    content = re.sub(rb"\r\n|\r|\n", b"\r\n", content)
    head, _, _ = content.partition(b"\r\n\r\n")
    names = [line.partition(b":")[0] for line in head.split(b"\r\n") if line[:1] not in b" \t"]
    if names != [name.encode() for name in message]:
        # =?utf-8?q?=0A?= in a value: decoded on the way in, some Pythons write it out as it was.
        raise Rejected("A header of this email would become several headers.")
    return content if content.endswith(b"\r\n") else content + b"\r\n"
