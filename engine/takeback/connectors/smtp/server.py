"""Where mail is handed over: the settings of one SMTP server, read from a URL.

    smtp://user:password@host:587?tls=starttls&timeout=10
    smtps://user:password@host

No message quotes the URL: a password that was not percent-encoded may stand anywhere in it.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NoReturn, Self
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from takeback.model.errors import InvalidSettings

_SHAPE = "smtp://[user:password@]host[:port][?tls=starttls&timeout=10&cafile=ca.pem&helo=name]"
_OPTIONS = ("tls", "timeout", "cafile", "helo")

_PORT_RELAY = 25
_PORT_IMPLICIT_TLS = 465


class Tls(StrEnum):
    """When a connection is encrypted; a certificate is verified in every case."""

    WHEN_OFFERED = "when_offered"
    """STARTTLS when the server offers it; a password is never sent when it does not."""
    STARTTLS = "starttls"
    """STARTTLS, or nothing is sent."""
    IMPLICIT = "implicit"
    """TLS from the first byte on: the scheme ``smtps``."""
    NONE = "none"
    """Plain text, a password too: for a server on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpServer:
    """One SMTP server and how to speak to it.

    ``timeout_seconds`` bounds connecting and each reply; with None only the attempt's
    ``seconds_max`` does. ``cafile`` holds the authorities trusted instead of the system's.
    ``helo`` is the name given in EHLO; None gives the address of this end of the connection.
    """

    host: str
    port: int
    tls: Tls = Tls.WHEN_OFFERED
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    timeout_seconds: float | None = None
    cafile: str | None = None
    helo: str | None = None

    @classmethod
    def from_url(cls, url: str) -> Self:
        """The settings that ``url`` says. Raises InvalidSettings for anything it can't mean."""
        parts = _split(url)
        options = _options(parts.query)
        user, password = _credentials(parts)
        implicit = parts.scheme == "smtps"
        return cls(
            host=_host(parts),
            port=_port(parts) or (_PORT_IMPLICIT_TLS if implicit else _PORT_RELAY),
            tls=_tls(options.get("tls"), implicit=implicit),
            user=user,
            password=password,
            timeout_seconds=_timeout(options.get("timeout")),
            cafile=_cafile(options.get("cafile")),
            helo=_helo(options.get("helo")),
        )


def _refuse(found: str, next_step: str) -> NoReturn:
    raise InvalidSettings(f"SMTP URL: {found}; expected {_SHAPE}. {next_step}")


def _split(url: str) -> SplitResult:
    if any(ord(character) <= 0x20 or ord(character) == 0x7F for character in url):
        _refuse("it contains white space or a control character", "Percent-encode it or remove it.")
    try:
        parts = urlsplit(url)
    except ValueError:
        _refuse("the host can't be read", "Write an IPv6 address in brackets: smtp://[::1]:25.")
    if parts.scheme not in ("smtp", "smtps"):
        _refuse(
            "its scheme is not smtp or smtps",
            "Start it with smtp:// (or smtps:// for TLS from the first byte on).",
        )
    if parts.path not in ("", "/") or parts.fragment:
        _refuse(
            "something stands after the port",
            "Remove the path; percent-encode / ? # @ : in a user or password (%2F and so on).",
        )
    return parts


def _options(query: str) -> Mapping[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS:
            _refuse(f"{name!r} is no option", f"Options are: {', '.join(_OPTIONS)}.")
        if name in options:
            _refuse(f"the option {name!r} is given twice", "Keep one of them.")
        options[name] = value
    return options


def _credentials(parts: SplitResult) -> tuple[str | None, str | None]:
    if parts.username is None and parts.password is None:
        return None, None
    if not parts.username or not parts.password:
        _refuse(
            "it has a user without a password, or a password without a user",
            "Give both or neither.",
        )
    user, password = unquote(parts.username), unquote(parts.password)
    if "\0" in user + password:
        _refuse("the user or the password contains NUL", "Remove it: no server can take it.")
    return user, password


def _host(parts: SplitResult) -> str:
    if not parts.hostname:
        _refuse("it names no host", "Write the server's name: smtp://mail.example.com:587.")
    try:
        parts.hostname.encode("idna")
    except UnicodeError:
        _refuse("the host is no valid name", "Check it for empty or overlong parts.")
    return parts.hostname


def _port(parts: SplitResult) -> int | None:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        _refuse(
            "the port is no number from 1 to 65535",
            "Correct it; percent-encode / ? # @ : in a user or password (%2F and so on).",
        )
    return port


def _tls(word: str | None, *, implicit: bool) -> Tls:
    if implicit:
        if word is not None:
            _refuse(
                f"tls={word} contradicts the scheme smtps",
                "Remove the option, or write smtp:// for STARTTLS.",
            )
        return Tls.IMPLICIT
    match word:
        case None:
            return Tls.WHEN_OFFERED
        case "starttls":
            return Tls.STARTTLS
        case "none":
            return Tls.NONE
        case _:
            _refuse(
                f"tls={word} is unknown",
                "Write tls=starttls to require STARTTLS, tls=none for a server on this machine, "
                "nothing to use STARTTLS when it is offered.",
            )


def _timeout(word: str | None) -> float | None:
    if word is None:
        return None
    try:
        seconds = float(word)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        _refuse(f"timeout={word} is no number of seconds above 0", "Write for example timeout=10.")
    return seconds


def _cafile(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        ssl.create_default_context(cafile=path)
    except OSError as exc:
        raise InvalidSettings(
            f"SMTP URL: cafile={path} can't be used ({exc.strerror or 'no such certificates'}); "
            "expected a readable file of PEM certificates. Correct the path, or remove the option "
            "to trust the system's authorities."
        ) from exc
    return path


def _helo(name: str | None) -> str | None:
    if name is not None and not (name.isascii() and name.isprintable() and name.strip()):
        _refuse(f"helo={name!r} is no host name", "Write the name of this host, in ASCII.")
    return name
