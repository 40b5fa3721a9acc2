"""One caller on one malformed call, in a transaction that is rolled back.

Every call is made on a real database, inside a savepoint that is undone: a refused call leaves
nothing behind, and a taken one ends the conversation, so each starts from the same state. For the
same reason an answer that was given once in a case is not asked for again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from takeback.app import Takeback
from takeback.catalog.registry import RESERVED_PROPERTIES
from takeback.model.arguments import validate
from takeback.model.errors import InvalidArguments
from takeback.testing.recovery.ablation import ABLATIONS, Reading
from takeback.testing.recovery.caller import Conversation, converse
from takeback.testing.recovery.corpus import MISSPELT, REF, Case

PRINCIPAL = "agent:trial"
FORMS = ("informed", "uninformed")

# Crockford's digits; the last character of a ref checks the others, so that any other one is wrong.
_OTHER_CHECK = {"0": "1"}

Call = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one case in the hands of one form of the caller, with one kind of answers.

    ``is_right`` says that the very call that was wanted was taken, ``is_wrong`` that another one
    was.
    """

    case: Case
    form: str
    ablation: str
    reason: str
    attempts: int
    lookups: int
    tokens: int
    is_right: bool
    is_wrong: bool


class Trial:
    """An app on one connection, on which cases are tried."""

    __slots__ = ("_app", "_connection")

    def __init__(self, app: Takeback, connection: psycopg.Connection[Any]) -> None:
        self._app = app
        self._connection = connection

    def run(
        self,
        case: Case,
        *,
        forms: Sequence[str] = FORMS,
        ablations: Mapping[str, Reading] = ABLATIONS,
    ) -> list[Result]:
        """What becomes of the case in the hands of each form, with each kind of answers."""
        with _undone(self._connection):
            ref = self._ref(case.before)
            said: dict[str, tuple[dict[str, Any], Any]] = {}
            return [
                self._result(case, ref, said, form=form, ablation=ablation, less=less)
                for ablation, less in ablations.items()
                for form in forms
            ]

    def first_answer(self, case: Case) -> Mapping[str, Any]:
        """What the malformed call is told."""
        with _undone(self._connection):
            return self._told(_filled(case.sent, self._ref(case.before)))[0]

    def _ref(self, before: Call | None) -> str:
        if before is None:
            return ""
        told = self._app.call(
            self._connection, before["tool"], before["arguments"], principal=PRINCIPAL
        )
        return str(told.ref)

    def _result(
        self,
        case: Case,
        ref: str,
        said: dict[str, tuple[dict[str, Any], Any]],
        *,
        form: str,
        ablation: str,
        less: Reading,
    ) -> Result:
        def send(call: Call) -> Mapping[str, Any]:
            return less(self._remembered(call, said)[0])

        intent = _filled(case.words, ref) if form == "informed" else None
        talk = converse(send, _filled(case.sent, ref), intent)
        is_taken = talk.reason == "taken"
        is_right = is_taken and self._is_wanted(talk, _filled(case.wanted, ref), said)
        return Result(
            case=case,
            form=form,
            ablation=ablation,
            reason=talk.reason,
            attempts=talk.attempts,
            lookups=talk.lookups,
            tokens=talk.tokens,
            is_right=is_right,
            is_wrong=is_taken and not is_right,
        )

    def _remembered(
        self, call: Call, said: dict[str, tuple[dict[str, Any], Any]]
    ) -> tuple[dict[str, Any], Any]:
        text = json.dumps(call)
        if text not in said:
            said[text] = self._told(call)
        return said[text]

    def _told(self, call: Call) -> tuple[dict[str, Any], Any]:
        """The answer to a call, and the arguments that were recorded with it, if any were."""
        with _undone(self._connection):
            envelope = self._app.call(
                self._connection, call["tool"], call["arguments"], principal=PRINCIPAL
            )
            recorded = None
            if envelope.ref is not None and envelope.error is None:
                shown = self._app.show(envelope.ref, tx=self._connection)
                recorded = shown.entry.bodies.get("arguments")
            return envelope.to_dict(), recorded

    def _is_wanted(
        self, talk: Conversation, wanted: Call, said: dict[str, tuple[dict[str, Any], Any]]
    ) -> bool:
        """Whether the call that was taken is the wanted one, and so is what was recorded of it."""
        taken = talk.calls[-1]
        if taken["tool"] != wanted["tool"]:
            return False
        recorded = self._remembered(taken, said)[1]
        if taken["tool"] not in self._app.registry:
            return bool(taken == wanted and recorded == wanted["arguments"])
        is_same = _reserved(taken) == _reserved(wanted)
        right = self._canonical(wanted)
        return is_same and self._canonical(taken) == right and recorded in (None, right)

    def _canonical(self, call: Call) -> dict[str, Any] | None:
        tool = self._app.registry.tool(call["tool"]).tool
        own = {
            name: value
            for name, value in call["arguments"].items()
            if name not in RESERVED_PROPERTIES
        }
        try:
            return validate(tool, own).canonical
        except InvalidArguments:
            return None


def try_all(
    trial: Trial,
    cases: Sequence[Case],
    *,
    ablations: Mapping[str, Reading] = ABLATIONS,
    tick: Callable[[], object] = lambda: None,
) -> Iterator[Result]:
    """The results of every case, each form and each kind of answers."""
    for case in cases:
        yield from trial.run(case, ablations=ablations)
        tick()


def _reserved(call: Call) -> dict[str, Any]:
    return {name: value for name, value in call["arguments"].items() if name in RESERVED_PROPERTIES}


def _filled(value: Any, ref: str) -> Any:
    """The call with its placeholders filled in."""
    if isinstance(value, dict):
        return {key: _filled(item, ref) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, ref) for item in value]
    if value == REF:
        return ref
    if value == MISSPELT:
        return f"{ref[:-1]}{_OTHER_CHECK.get(ref[-1], '0')}"
    return value


@contextmanager
def _undone(connection: psycopg.Connection[Any]) -> Iterator[None]:
    with connection.transaction(force_rollback=True):
        yield
