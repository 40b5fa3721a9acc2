"""The closed list of stable codes: what each means, and what a caller may rely on.

Every answer takes its class, its effects and its word on repeating from here, and docs/errors.md is
made of it. A code has one meaning; a new meaning is a new code, and none is ever removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

WireEffect = Literal["none", "committed", "unknown"]


class Class(StrEnum):
    """What kind of call could succeed: the same one later, another one, or none."""

    TRANSIENT = "transient"
    INVALID_REQUEST = "invalid_request"
    TERMINAL = "terminal"


class Where(StrEnum):
    """Who says a code. What ``STAYS`` is remembered with the intent, and answers every repeat."""

    CALL = "call"
    READ = "read"
    RESTORE = "restore"
    STAYS = "an intent"
    PERSON = "a person's verb"
    RAISED = "raised"
    COMMAND_LINE = "command line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One code. ``effects`` are the words that may stand beside it, the usual one first.

    ``repeat_can_succeed`` is about the same call, word for word. ``where`` is empty while nothing
    says the code yet.
    """

    name: str
    class_: Class
    effects: tuple[WireEffect, ...] = ("none",)
    repeat_can_succeed: bool = False
    where: tuple[Where, ...] = ()
    meaning: str
    advice: str

    @property
    def settled_class(self) -> Class:
        """The class once it stays with an intent: no call changes it any more."""
        return Class.TERMINAL if self.class_ is Class.TRANSIENT else self.class_


_ANSWERED = (
    Code(
        name="invalid_argument",
        class_=Class.INVALID_REQUEST,
        where=(Where.CALL, Where.READ, Where.RESTORE, Where.PERSON, Where.STAYS, Where.RAISED),
        meaning="arguments break the tool's schema, or name what does not exist",
        advice="correct what `violations` names; `next_call` may have done it",
    ),
    Code(
        name="unknown_argument",
        class_=Class.INVALID_REQUEST,
        where=(Where.CALL, Where.READ, Where.RESTORE),
        meaning="all that is wrong is that the tool takes no such argument",
        advice="leave it out",
    ),
    Code(
        name="unknown_tool",
        class_=Class.INVALID_REQUEST,
        where=(Where.CALL, Where.READ),
        meaning="no tool has this name",
        advice="call one of `alternatives`",
    ),
    Code(
        name="tool_not_active",
        class_=Class.INVALID_REQUEST,
        meaning="the tool exists and has to be found with `search_tools` first",
        advice="make the `next_call`, then call again",
    ),
    Code(
        name="key_conflict",
        class_=Class.INVALID_REQUEST,
        where=(Where.CALL,),
        meaning="an equal call was made with other arguments outside the key",
        advice="send the first values, or add `again` to do it once more on purpose",
    ),
    Code(
        name="first_in_doubt",
        class_=Class.TERMINAL,
        where=(Where.CALL,),
        meaning="what `repeat_of` names may have happened, and nobody knows yet: once more could "
        "be twice",
        advice="a person says what became of the first (`takeback resolve`); then call again",
    ),
    Code(
        name="preview_stale",
        class_=Class.INVALID_REQUEST,
        where=(Where.CALL, Where.STAYS),
        meaning="what the call would affect is not what was expected of it, or approved: no "
        "preview has issued this `expect`, or the world has changed since",
        advice="take a new preview and look at it, or leave `expect` out",
    ),
    Code(
        name="no_such_ref",
        class_=Class.INVALID_REQUEST,
        where=(Where.CALL, Where.RESTORE, Where.PERSON, Where.RAISED),
        meaning="no intent has this ref, as far as the caller may know",
        advice="one of `alternatives` was meant, perhaps; nothing is guessed",
    ),
    Code(
        name="no_transaction",
        class_=Class.INVALID_REQUEST,
        repeat_can_succeed=True,
        where=(Where.CALL, Where.READ, Where.RESTORE, Where.PERSON),
        meaning="the connection has no transaction that could be joined: autocommit, failed, "
        "closed or read-only",
        advice="the author of the tool begins one, or passes None",
    ),
    Code(
        name="in_progress",
        class_=Class.TRANSIENT,
        repeat_can_succeed=True,
        where=(Where.CALL, Where.READ, Where.RESTORE, Where.PERSON),
        meaning="an equal call is in somebody else's transaction at this moment, or others keep "
        "getting in the way",
        advice="call again; the answer is there once it has committed",
    ),
    Code(
        name="database_unavailable",
        class_=Class.TRANSIENT,
        effects=("none", "unknown"),
        repeat_can_succeed=True,
        where=(
            Where.CALL,
            Where.READ,
            Where.RESTORE,
            Where.PERSON,
            Where.RAISED,
            Where.COMMAND_LINE,
        ),
        meaning="the ledger's database can't be reached, or lacks the schema or a privilege. The "
        "effect is unknown when the answer to a commit was lost",
        advice="call again: an equal call finds what was recorded",
    ),
    Code(
        name="provider_unavailable",
        class_=Class.TRANSIENT,
        repeat_can_succeed=True,
        where=(Where.CALL, Where.READ, Where.RESTORE, Where.STAYS, Where.RAISED),
        meaning="whoever carries it out, or answers the read, can't be reached",
        advice="wait; the engine has repeated a remote effect as often as its row allows",
    ),
    Code(
        name="provider_rejected",
        class_=Class.TERMINAL,
        where=(Where.CALL, Where.READ, Where.STAYS, Where.RAISED),
        meaning="whoever carries it out refused it for good",
        advice="one of `alternatives`, or ask the user",
    ),
    Code(
        name="no_access",
        class_=Class.TERMINAL,
        where=(
            Where.CALL,
            Where.READ,
            Where.RESTORE,
            Where.PERSON,
            Where.STAYS,
            Where.RAISED,
        ),
        meaning="this caller may not do it, or not see it; whether it exists is not said",
        advice="ask a person",
    ),
    Code(
        name="needs_approval",
        class_=Class.TERMINAL,
        where=(Where.PERSON,),
        meaning="the intent still waits for a person's decision, and the verb needs that first",
        advice="a person approves or denies it",
    ),
    Code(
        name="approval_mismatch",
        class_=Class.INVALID_REQUEST,
        where=(Where.CALL, Where.PERSON),
        meaning="what a person approved, or looked at, is not what is asked for",
        advice="what was approved is carried out as recorded; another call needs `repeat_of`",
    ),
    Code(
        name="approval_denied",
        class_=Class.TERMINAL,
        where=(Where.STAYS,),
        meaning="a person has said no",
        advice="tell the user; nothing happened",
    ),
    Code(
        name="approval_expired",
        class_=Class.TERMINAL,
        where=(Where.STAYS,),
        meaning="nobody approved it in time",
        advice="tell the user; nothing happened",
    ),
    Code(
        name="waited_in_vain",
        class_=Class.TERMINAL,
        where=(Where.STAYS,),
        meaning="what it was to come after has failed, or was taken back",
        advice="tell the user; nothing happened. Put the other right, or call without `after`",
    ),
    Code(
        name="limit_exceeded",
        class_=Class.TERMINAL,
        where=(Where.CALL, Where.STAYS),
        meaning="the call is over a limit of its row, and no person is to lift it",
        advice="stay within `alternatives`, or ask the user; repeating is futile",
    ),
    Code(
        name="frozen",
        class_=Class.TRANSIENT,
        repeat_can_succeed=True,
        where=(Where.CALL, Where.RESTORE),
        meaning="a person has stopped this tool, run or tenant",
        advice="wait until a person thaws it",
    ),
    Code(
        name="too_late",
        class_=Class.TERMINAL,
        where=(Where.RESTORE,),
        meaning="it has begun, or has happened and can't be taken back",
        advice="tell the user; a new call may make up for it",
    ),
    Code(
        name="not_restorable",
        class_=Class.TERMINAL,
        where=(Where.RESTORE,),
        meaning="there is nothing to take back, or nobody knows yet",
        advice="the message says which",
    ),
    Code(
        name="restore_expired",
        class_=Class.TERMINAL,
        where=(Where.RESTORE,),
        meaning="what was deleted or overwritten is not kept any more",
        advice="tell the user",
    ),
    Code(
        name="restore_conflict",
        class_=Class.TERMINAL,
        where=(Where.RESTORE,),
        meaning="somebody has changed it since, or it would collide with what is there now",
        advice="a person looks, and may force it",
    ),
    Code(
        name="wrong_state",
        class_=Class.TERMINAL,
        where=(Where.PERSON,),
        meaning="the verb does not apply to what the intent is now",
        advice="the message says what it is, and what can be done about it",
    ),
    Code(
        name="resolved_failed",
        class_=Class.TERMINAL,
        where=(Where.STAYS,),
        meaning="it was in doubt, and a person has found out that it did not happen",
        advice="tell the user; nothing happened",
    ),
    Code(
        name="search_budget_exhausted",
        class_=Class.TERMINAL,
        meaning="the searches of this turn are used up",
        advice="use a tool that was found, or ask the user",
    ),
    Code(
        name="internal_error",
        class_=Class.TERMINAL,
        effects=("none", "unknown", "committed"),
        where=(
            Where.CALL,
            Where.READ,
            Where.RESTORE,
            Where.PERSON,
            Where.RAISED,
            Where.COMMAND_LINE,
        ),
        meaning="the tool's own code failed, or ours, or the database refused the commit. `effect` "
        "says what became of the call all the same",
        advice="an operator looks with `takeback show` and the `trace_id`",
    ),
)

_RAISED = (
    Code(
        name="invalid_catalog",
        class_=Class.INVALID_REQUEST,
        where=(Where.RAISED, Where.COMMAND_LINE),
        meaning="a row or a handler can't be used",
        advice="the message names each, with the fix",
    ),
    Code(
        name="invalid_settings",
        class_=Class.INVALID_REQUEST,
        where=(Where.RAISED, Where.COMMAND_LINE),
        meaning="a setting can't be used",
        advice="the message names each, and what was expected",
    ),
    Code(
        name="unsupported_connection",
        class_=Class.INVALID_REQUEST,
        where=(Where.RAISED,),
        meaning="what was given as a transaction is none",
        advice="pass a Session, Connection or psycopg connection, or None",
    ),
    Code(
        name="retry_transaction",
        class_=Class.TRANSIENT,
        repeat_can_succeed=True,
        where=(Where.RAISED,),
        meaning="your transaction is lost",
        advice="roll back and run all of it again",
    ),
    Code(
        name="transaction_aborted",
        class_=Class.TERMINAL,
        where=(Where.RAISED,),
        meaning="a failure left your transaction aborted: a commit would roll it back and say "
        "nothing",
        advice="roll back; what failed is in `__cause__`",
    ),
    Code(
        name="broker_unavailable",
        class_=Class.TRANSIENT,
        repeat_can_succeed=True,
        where=(Where.RAISED, Where.COMMAND_LINE),
        meaning="the broker that wakes workers can't be reached. Calls are recorded all the same, "
        "and `takeback worker` carries them out without it",
        advice="see that the broker runs and that `broker_url` names it",
    ),
    Code(
        name="ledger_corrupt",
        class_=Class.TERMINAL,
        where=(Where.RAISED, Where.COMMAND_LINE),
        meaning="the log does not prove what it says",
        advice="run `takeback verify`, which names the intents",
    ),
    Code(
        name="outcome_unknown",
        class_=Class.TERMINAL,
        effects=("unknown",),
        where=(Where.RAISED,),
        meaning="a handler can't say whether it happened. A remote intent is in doubt then, which "
        "is no error",
        advice="find out before anything is repeated",
    ),
    Code(
        name="conflict",
        class_=Class.TERMINAL,
        where=(Where.RAISED,),
        meaning="the root of `key_conflict`, `too_late` and the like",
        advice="its branches say",
    ),
    Code(
        name="unavailable",
        class_=Class.TRANSIENT,
        repeat_can_succeed=True,
        where=(Where.RAISED,),
        meaning="the root of what may work later",
        advice="its branches say",
    ),
    Code(
        name="invalid_transition",
        class_=Class.TERMINAL,
        where=(Where.RAISED,),
        meaning="a command that the state of an intent does not allow; never told to a model",
        advice="look at the intent with `takeback show`",
    ),
    Code(
        name="lease_lost",
        class_=Class.TERMINAL,
        where=(Where.RAISED,),
        meaning="a worker's write was fenced off, since another owns the attempt",
        advice="nothing: the other one settles it",
    ),
)

_TYPED = (
    Code(
        name="usage",
        class_=Class.INVALID_REQUEST,
        where=(Where.COMMAND_LINE,),
        meaning="what was typed can't be meant",
        advice="`takeback VERB --help` says what can",
    ),
    Code(
        name="interrupted",
        class_=Class.TRANSIENT,
        repeat_can_succeed=True,
        where=(Where.COMMAND_LINE,),
        meaning="somebody pressed Ctrl-C",
        advice="type it again",
    ),
    Code(
        name="declined",
        class_=Class.TERMINAL,
        where=(Where.COMMAND_LINE,),
        meaning="asked whether it is meant, somebody said no. Nothing was changed",
        advice="nothing; or type it again and say yes",
    ),
    Code(
        name="failed_check",
        class_=Class.TERMINAL,
        where=(Where.COMMAND_LINE,),
        meaning="`takeback doctor` found something wrong, or `takeback catalog check` lines that a "
        "declaration must not have",
        advice="what was found says how to mend it",
    ),
    Code(
        name="worker_exhausted",
        class_=Class.TERMINAL,
        where=(Where.COMMAND_LINE,),
        meaning="a worker had to give up so many attempts that it ended itself",
        advice="look why the handlers hang, and start another worker",
    ),
)

CODES: Mapping[str, Code] = {one.name: one for one in (*_ANSWERED, *_RAISED, *_TYPED)}
"""Every code by its name, in the order of the documents."""


def code_of(name: str) -> Code:
    """The code of that name; what is in no list is a fault of ours, and told as such.

    >>> code_of("too_late").class_.value, code_of("disk_on_fire").name
    ('terminal', 'internal_error')
    """
    return CODES.get(name, CODES["internal_error"])
