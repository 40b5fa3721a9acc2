"""The exceptions of Takeback, one tree that branches on who must act.

    TakebackError
    ├── CallerError               the caller changes the call, the declaration or the set-up
    │   ├── InvalidCatalog        a tool row or its handler is refused when the app is built
    │   ├── InvalidSettings       a setting is missing, malformed or contradicts another
    │   ├── InvalidArguments      the arguments of a call, with every violation at once
    │   ├── UnknownTool           no row of that name
    │   ├── NoSuchRef             no intent of that ref in this tenant
    │   ├── NoTransaction         the connection given has no transaction to join
    │   └── UnsupportedConnection the object given is none of the connections taken
    ├── PolicyRefusal             a person or another policy has to decide first
    │   ├── PersonRequired        an agent's principal asked for what only a person may do
    │   ├── NeedsApproval         it waits for a person's yes, and the verb needs that first
    │   ├── NotGranted            this principal may not do it to what others have done
    │   ├── PolicyForbids         the app's own policy does not allow the call
    │   ├── LimitExceeded         a limit of the row, and no person is to lift it
    │   └── Frozen                a person has stopped this tool, run or tenant
    ├── Conflict                  the state of the world is another than the call assumes
    │   ├── NotRestorable         nothing there to take back, with the reason
    │   ├── FirstInDoubt          what is meant once more may have happened, and nobody knows
    │   ├── RestoreExpired        its retention is over
    │   ├── TooLate               the window is over, or the effect has begun
    │   ├── PreviewStale          what would be affected is not what was previewed
    │   ├── ApprovalMismatch      what was approved is not what is asked for
    │   ├── RestoreConflict       something changed since: both sides named
    │   ├── WrongState            a person's verb that does not apply to what the intent is now
    │   ├── CommitRefused         a constraint or trigger of the database refused the commit
    │   ├── InvalidTransition     a command that the state of the intent does not allow
    │   └── LeaseLost             another worker owns the attempt by now
    ├── Unavailable               nobody's fault: the same call may work later
    │   ├── DatabaseUnavailable   the ledger's database can't be reached
    │   │   ├── CommitUnknown     the answer to a commit of ours was lost
    │   │   └── LedgerClosed      it has no ledger, or this role may not use it: an operator acts
    │   ├── BrokerUnavailable     the broker that wakes workers can't be reached
    │   ├── EmbeddedUnavailable   the embedded Postgres can't be started, with the reason
    │   ├── InProgress            an equal call is still uncommitted in another transaction
    │   └── RetryTransaction      the caller's transaction is lost and must run again as a whole
    ├── LedgerCorrupt             the log does not prove what it says: an operator acts
    ├── TransactionAborted        a failure left the caller's transaction aborted: roll it back
    └── HandlerError              raised by a handler, to say what became of its effect
        ├── NotDispatched         proof: nothing happened, and it may work later
        ├── Rejected              proof: nothing happened, and it never will
        ├── NoAccess              proof: nothing happened, and this caller may not do it or see it
        ├── OutcomeUnknown        no proof: it may have happened, and nobody knows yet
        ├── InvalidReference      an argument names something that does not exist
        └── HandlerBroke          it ended in an exception that says nothing about its effect

Retryability belongs to the class (``retryable``), the stable word for programs is ``code``.
Nobody parses a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from takeback.model.violation import Violation


# What was sent in place of a name may be a whole document.
NAME_SHOWN_MAX = 100


class TakebackError(Exception):
    """Everything that Takeback raises on purpose."""

    code: ClassVar[str] = "internal_error"
    retryable: ClassVar[bool] = False


class CallerError(TakebackError):
    """The caller must change something before it can work."""

    code = "invalid_argument"


class InvalidCatalog(CallerError):
    """A row, or the handler bound to it, can't be used; the message names the row and the fix."""

    code = "invalid_catalog"


class InvalidSettings(CallerError):
    """A setting is missing, malformed or contradicts another one."""

    code = "invalid_settings"


class InvalidArguments(CallerError):
    """The arguments of a call break the tool's schema: ``violations`` holds every one of them."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__("; ".join(f"{v.field}: {v.message}" for v in violations))
        self.violations = tuple(violations)


class UnknownTool(CallerError):
    """No row of the catalog has this name; ``nearest`` holds look-alikes, never acted upon.

    ``others`` are rows that have a word in common with it.
    """

    code = "unknown_tool"

    def __init__(
        self, name: str, nearest: Sequence[str] = (), *, others: Sequence[str] = ()
    ) -> None:
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        super().__init__(f"no tool is named {name[:NAME_SHOWN_MAX]!r}{hint}")
        self.name = name
        self.nearest = tuple(nearest)
        self.others = tuple(others)


class NoSuchRef(CallerError):
    """No intent of this tenant has this ref; ``nearest`` holds look-alikes, never acted upon."""

    code = "no_such_ref"

    def __init__(self, ref: str, nearest: Sequence[str] = ()) -> None:
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        super().__init__(f"no such ref {ref[:NAME_SHOWN_MAX]!r}{hint}")
        self.ref = ref
        self.nearest = tuple(nearest)


class NoTransaction(CallerError):
    """The connection is in autocommit, or its transaction has already failed: nothing to join."""

    code = "no_transaction"


class UnsupportedConnection(CallerError):
    """The object given as a transaction is none of the connections that are taken."""

    code = "unsupported_connection"


class PolicyRefusal(TakebackError):
    """Somebody else decides first."""

    code = "needs_approval"


class PersonRequired(PolicyRefusal):
    """An agent's principal asked for what only a person may do."""

    code = "no_access"


class NeedsApproval(PolicyRefusal):
    """The intent still waits for approval; a person decides about that first."""


class NotGranted(PolicyRefusal):
    """An agent asked to take back what neither its run nor its principal has done."""

    code = "no_access"


class PolicyForbids(PolicyRefusal):
    """The app's own policy does not allow the call."""

    code = "no_access"


class LimitExceeded(PolicyRefusal):
    """The call is over a limit of its row, which refuses it; ``left`` is what would be within."""

    code = "limit_exceeded"

    def __init__(self, message: str, *, left: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.left = tuple(left)


class Frozen(PolicyRefusal):
    """A person has stopped what this belongs to; it may begin after the thaw."""

    code = "frozen"
    retryable = True


class Conflict(TakebackError):
    """The world is in another state than the call assumes; ``alternatives`` can be done instead."""

    code = "conflict"

    def __init__(self, message: str, *, alternatives: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.alternatives = tuple(alternatives)


class NotRestorable(Conflict):
    """There is nothing to take back; the message says why."""

    code = "not_restorable"


class FirstInDoubt(Conflict):
    """What is meant once more may have happened already: to do it again could double it."""

    code = "first_in_doubt"


class RestoreExpired(Conflict):
    """What was deleted or overwritten is no longer kept."""

    code = "restore_expired"


class PreviewStale(Conflict):
    """``expect`` names another affected set than the call would have.

    ``differences`` names what is there now and was not, or the other way round.
    """

    code = "preview_stale"

    def __init__(self, message: str, differences: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.differences = tuple(differences)


class ApprovalMismatch(Conflict):
    """What a person approved, or looked at, is not what is asked for; ``differences`` say where."""

    code = "approval_mismatch"

    def __init__(self, message: str, differences: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.differences = tuple(differences)


class TooLate(Conflict):
    """The undo window is over: the effect has begun or happened.

    ``alternatives`` and ``next_call`` are what can be done instead.
    """

    code = "too_late"

    def __init__(
        self,
        message: str,
        *,
        alternatives: Sequence[Any] = (),
        next_call: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.alternatives = tuple(alternatives)
        self.next_call = next_call


class WrongState(Conflict):
    """A person's verb does not apply; the message says what the intent is, and what does."""

    code = "wrong_state"


class RestoreConflict(Conflict):
    """Something changed since; ``differences`` names each field with both values."""

    code = "restore_conflict"

    def __init__(self, message: str, differences: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.differences = tuple(differences)


class CommitRefused(Conflict):
    """A deferred constraint or trigger refused the commit of a transaction of ours."""

    code = "internal_error"

    def __init__(self) -> None:
        super().__init__(
            "the database refused the commit, so nothing was changed; an operator finds the "
            "cause under the trace id"
        )


class InvalidTransition(Conflict):
    """A command that the intent's state does not allow."""

    code = "invalid_transition"

    def __init__(self, state: str, command: str) -> None:
        super().__init__(f"{command!r} is not possible while the intent is {state!r}")
        self.state = state
        self.command = command


class LeaseLost(Conflict):
    """Another worker, or the reaper, owns this attempt by now: the write was fenced off."""

    code = "lease_lost"


class Unavailable(TakebackError):
    """The same call may work later."""

    code = "unavailable"
    retryable = True


class DatabaseUnavailable(Unavailable):
    """The ledger's database can't be reached, or went away."""

    code = "database_unavailable"


class CommitUnknown(DatabaseUnavailable):
    """The answer to a commit of ours was lost: it may have happened. The same call finds out."""


class LedgerClosed(DatabaseUnavailable):
    """The database is there, and has no ledger or none that this role may use: waiting won't help.

    Not repeated by us. An operator migrates or grants, and then the same call works.
    """


class EmbeddedUnavailable(Unavailable):
    """The embedded Postgres can't be started; the message says why and what to do."""

    code = "database_unavailable"


class BrokerUnavailable(Unavailable):
    """The broker that wakes workers can't be reached; the ledger goes on without it."""

    code = "broker_unavailable"


class InProgress(Unavailable):
    """An equal call is recorded in another transaction that has not committed yet.

    ``next_call`` is the one to make once it is over, where that is another.
    """

    code = "in_progress"

    def __init__(self, message: str, *, next_call: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.next_call = next_call


class RetryTransaction(Unavailable):
    """The caller's transaction is lost (serialization failure or deadlock): run all of it again."""

    code = "retry_transaction"


class LedgerCorrupt(TakebackError):
    """The log does not prove what it says."""

    code = "ledger_corrupt"


class TransactionAborted(TakebackError):
    """A failure inside the caller's transaction has left it aborted; the cause is ``__cause__``.

    No envelope: who commits after one would have Postgres roll everything back, and say nothing.
    """

    code = "transaction_aborted"

    def __init__(self) -> None:
        super().__init__(
            "the call failed and left the transaction aborted, so nothing of it can be committed: "
            "roll it back; what failed is the cause of this exception"
        )


class TransactionEnded(TakebackError):
    """A handler of a Local tool has ended the transaction that it was given, behind our back.

    What it had done may be committed; nobody here can undo it or say so.
    """

    code = "internal_error"

    def __init__(self) -> None:
        super().__init__(
            "a handler has ended its caller's transaction on the driver's own connection: leave "
            "out commit() and rollback() there; what was done so far may be committed"
        )


class HandlerError(TakebackError):
    """Raised by a handler to say what became of its effect."""


class NotDispatched(HandlerError):
    """Proof that nothing happened in the world, and that the same attempt may work later.

    ``retry_after_s`` is what the provider asked for, in seconds; None when it did not say.
    """

    code = "provider_unavailable"
    retryable = True

    def __init__(self, reason: str = "", *, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class Rejected(HandlerError):
    """Proof that nothing happened, and that repeating the call changes nothing.

    ``message`` is shown to the model: the handler's own words, no exception text.
    ``alternatives`` are ready suggestions such as the refundable balance.
    """

    code = "provider_rejected"

    def __init__(self, message: str, *, alternatives: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.alternatives = tuple(alternatives)


class NoAccess(HandlerError):
    """Proof that nothing happened: the caller may not do it, or not see what it is about.

    ``message`` is shown to the model. It should not tell whether the thing exists.
    """

    code = "no_access"

    def __init__(self, message: str = "this caller has no access to it") -> None:
        super().__init__(message)
        self.message = message


class OutcomeUnknown(HandlerError):
    """The effect was handed over and its answer was lost: it may have happened, or not.

    No proof of anything: the intent becomes in doubt. ``reason`` is for the operator.
    """

    code = "outcome_unknown"

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class InvalidReference(HandlerError):
    """An argument names what does not exist; ``permitted`` lists what does, nearest first."""

    code = "invalid_argument"

    def __init__(
        self, field: str, received: Any, *, message: str, permitted: Sequence[Any] = ()
    ) -> None:
        super().__init__(message)
        self.field = field
        self.received = received
        self.message = message
        self.permitted = tuple(permitted)


class HandlerBroke(HandlerError):
    """A Local handler ended in an exception of its own; its changes are to be rolled back.

    The exception is the cause (``__cause__``); its text is never shown to a model.
    """

    code = "internal_error"

    def __init__(self, tool: str) -> None:
        super().__init__(f"the handler of {tool!r} failed; nothing was changed")
        self.tool = tool
