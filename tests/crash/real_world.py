"""The world outside, as several processes see it: a mail server, and a file for the rest."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from takeback.connectors.smtp import Email, SmtpServer, mailer
from takeback.declare import Tool
from takeback.model.handler import Absent, Attempt, Handler, Original
from takeback.testing import MailServer
from tests.dispatch.office import CAN_BE_ASKED, KEEP_KEYS, Called, file_case, unfile_case

LETTERS = ("send_letter", "hold_letter")


def address_of(to: str) -> str:
    """Where the letters to ``to`` go."""
    return f"{to}@example.com"


class RealWorld:
    """As ``World``: letters leave by SMTP, whatever else happens is a line of a file.

    ``mail`` is known to the process that runs the server; others know its ``mail_url``.
    """

    def __init__(self, file: Path, mail_url: str, mail: MailServer | None = None) -> None:
        self.refused: list[Called] = []
        self._file = file
        self._mail_url = mail_url
        self._mail = mail

    @property
    def effects(self) -> list[Called]:
        """What has come in, whoever heard of it."""
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        return [*(Called(**json.loads(line)) for line in lines), *self._letters()]

    @property
    def calls(self) -> list[Called]:
        """Here only what has come in is known."""
        return self.effects

    def _letters(self) -> list[Called]:
        messages = self._mail.messages if self._mail is not None else []
        return [
            Called(
                tool=message.subject,
                to=message.recipients[0].removesuffix("@example.com"),
                note="",
                key="",
                number=0,
            )
            for message in messages
        ]

    def handlers(self, rows: Sequence[Tool]) -> object:
        """A handler for each row."""
        return SimpleNamespace(**{tool.name: self._handler(tool.name) for tool in rows})

    def _handler(self, tool: str) -> Handler:
        if tool in ("file_case", "open_case"):
            return Handler(perform=file_case, restore=unfile_case)
        if tool in LETTERS:
            return mailer(SmtpServer.from_url(self._mail_url), lambda a, _: _letter(tool, a.to))

        def perform(arguments: Any, attempt: Attempt) -> None:
            self._arrive(tool, arguments.to, attempt)

        def restore(original: Original, attempt: Attempt) -> None:
            self._arrive(f"un{tool}", original.arguments.to, attempt)

        def find(arguments: Any, attempt: Attempt) -> Any:
            key = attempt.provider_key
            return {"found": key} if any(c.key == key for c in self.effects) else Absent()

        return Handler(
            perform=perform,
            restore=restore if tool in ("pay", "ship") else None,
            find=find if tool in CAN_BE_ASKED else None,
        )

    def _arrive(self, tool: str, to: str, attempt: Attempt) -> None:
        line = {"tool": tool, "to": to, "note": "", "key": attempt.provider_key, "number": 0}
        if tool in KEEP_KEYS and any(c.key == attempt.provider_key for c in self.effects):
            return
        file = os.open(self._file, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        os.write(file, json.dumps(line).encode() + b"\n")
        os.close(file)


def _letter(tool: str, to: str) -> Email:
    return Email(
        sender="post@example.com",
        to=address_of(to),
        subject=tool,
        text="Hello.",
    )
