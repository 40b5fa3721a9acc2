"""What became of an attempt, and the command that says so to the ledger.

Only ``NotDispatched``, ``Rejected``, ``NoAccess`` and ``InvalidReference`` prove that nothing
happened, and an attempt that was never called. Whatever else ends an attempt that had begun leaves
it in doubt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal, assert_never

from takeback.client.body import count_of, outcome_body, refusal_body, words
from takeback.client.face import Broke, performed, try_face
from takeback.client.faulting import UNWRITABLE, details_of, kind_of
from takeback.declare import Keyed, Remote, Tool
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.command import DeferCause, DoubtCause
from takeback.model.intent import Intent, State

_DEFAULTS = Remote()

RETRY_AFTER_SECONDS_MAX = 86_400.0
"""A provider's own word is kept up to a day; what asks for more is looked at daily."""

DOUBLINGS_MAX = 30
"""More would only overflow: the ceiling is reached long before."""


MESSAGE_LENGTH_MAX = 300
"""Of what an exception says so much is told on a line; its traceback has the rest."""


SAID_LENGTH_MAX = 1_000
"""So much is kept of the traceback of what a handler raises to say something, its end: an outage
raises it again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """What ended an attempt, for operators alone: the exception's class, its own words on one line,
    and its traceback.
    """

    kind: str
    message: str
    details: str


def reason_of(problem: BaseException) -> Reason:
    """The reason behind what a handler raised."""
    said = try_face(str, problem)
    message = " ".join(words(UNWRITABLE if isinstance(said, Broke) else said).split())
    details = details_of(problem)
    if isinstance(problem, errors.HandlerError):
        details = details[-SAID_LENGTH_MAX:]
    return Reason(kind=kind_of(problem), message=message[:MESSAGE_LENGTH_MAX], details=details)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one attempt: the kind, and the body that is stored beside its event.

    ``interrupted`` is an attempt that was claimed, perhaps begun, and never called; ``settled`` one
    that was written down together with its effect. Of the intent's attempts ``attempts`` count
    towards what its row allows (None: all); one that ``is_spared`` met an outage, and doesn't.
    ``reason`` is what the handler raised, where it did.
    """

    kind: Literal["succeeded", "failed", "deferred", "in_doubt", "interrupted", "settled"]
    body: str | None = None
    affected_count: int = 0
    code: str = ""
    cause: DoubtCause = "exception"
    retry_after_s: float | None = None
    attempts: int | None = None
    is_spared: bool = False
    reason: Reason | None = field(default=None, compare=False)

    @property
    def word(self) -> str:
        """What it is called where attempts are counted.

        >>> Outcome(kind="deferred").word, INTERRUPTED.word
        ('deferred', 'handed_back')
        """
        return "handed_back" if self.kind == "interrupted" else self.kind


INTERRUPTED = Outcome(kind="interrupted")
SETTLED = Outcome(kind="settled")


def of_answer(answer: object) -> Outcome:
    """The outcome behind what a face answered, or ``Broke``."""
    if isinstance(answer, Broke):
        return Outcome(kind="in_doubt", cause="exception", reason=reason_of(answer.problem))
    done = performed(answer)
    return Outcome(kind="succeeded", body=outcome_body(done), affected_count=count_of(done))


def of_refusal(problem: errors.TakebackError) -> Outcome:
    """The outcome that a handler proved by what it raised."""
    return replace(_of_refusal(problem), reason=reason_of(problem))


def _of_refusal(problem: errors.TakebackError) -> Outcome:
    match problem:
        case errors.NotDispatched():
            return Outcome(kind="deferred", retry_after_s=problem.retry_after_s)
        case errors.Rejected():
            return _failed(errors.Rejected.code, problem.message, list(problem.alternatives))
        case errors.InvalidReference():
            return _failed(problem.code, problem.message, list(problem.permitted))
        case errors.NoAccess():
            return _failed(problem.code, problem.message, [])
        case errors.OutcomeUnknown():
            return Outcome(kind="in_doubt", cause="outcome_unknown")
        case _:
            return Outcome(kind="in_doubt", cause="exception")


def given_up(outcome: Outcome, intent: Intent, tool: Tool) -> Outcome:
    """The outcome once it is known whether the row allows ``intent`` another attempt.

    While an earlier attempt is unknown, giving up on those that never got through proves nothing.
    Nor does a refusal, unless the provider keeps our key: then it speaks of all under that.
    """
    effect = tool.effect
    is_keyed = isinstance(effect, Remote) and isinstance(effect.upstream, Keyed)
    if outcome.kind == "failed" and intent.attempts_unknown and not is_keyed:
        return Outcome(kind="in_doubt", cause="outcome_unknown", reason=outcome.reason)
    attempts_max = effect.attempts_max if isinstance(effect, Remote) else 1
    attempts = outcome.attempts or intent.attempt
    if outcome.kind != "deferred" or outcome.is_spared or attempts < attempts_max:
        return outcome
    if intent.attempts_unknown:
        return Outcome(kind="in_doubt", cause="outcome_unknown", reason=outcome.reason)
    given_up = not_reached(f"the provider could not be reached in {attempts} attempts")
    return replace(given_up, reason=outcome.reason)


def not_reached(message: str) -> Outcome:
    """Nothing happened and nobody tries again."""
    return _failed("provider_unavailable", message, [])


def _failed(code: str, message: str, alternatives: list[object]) -> Outcome:
    return Outcome(kind="failed", body=refusal_body(code, message, alternatives), code=code)


def command_for(
    outcome: Outcome, intent: Intent, digest: str | None, dice: float, effect: object = None
) -> commands.Command:
    """The command that settles an attempt of ``intent``; ``dice`` in [0, 1) spreads retries, whose
    pauses are those of ``effect``.
    """
    match outcome.kind:
        case "succeeded":
            return commands.Succeed(result=digest, affected_count=outcome.affected_count)
        case "failed":
            return commands.Fail(code=outcome.code, error=digest)
        case "deferred":
            tried = outcome.attempts or intent.attempt
            wait = wait_before(tried, outcome.retry_after_s, dice, effect)
            cause: DeferCause = "outage" if outcome.is_spared else "not_dispatched"
            return commands.Defer(wait=wait, cause=cause)
        case "in_doubt":
            return commands.LoseTrack(cause=outcome.cause)
        case "interrupted" if intent.state is State.CLAIMED:
            return commands.HandBack()
        case "interrupted":
            return commands.Defer(wait=timedelta(0), cause="interrupted")
        case "settled":
            raise ValueError(f"{intent.ref} is settled already")
        case _:
            assert_never(outcome.kind)


def wait_before(
    attempt: int, retry_after_s: float | None, dice: float, effect: object = None
) -> timedelta:
    """Exponential with full jitter as ``effect`` says, and never before the provider's own word.

    >>> wait_before(3, None, 0.5)
    datetime.timedelta(seconds=2)
    >>> wait_before(1, 60.0, 0.0)
    datetime.timedelta(seconds=60)
    >>> wait_before(3, None, 1.0, Remote(retry_first_seconds=10, retry_seconds_max=30))
    datetime.timedelta(seconds=30)
    >>> wait_before(2**40, float("nan"), 1.0), wait_before(1, float("inf"), 0.0)
    (datetime.timedelta(seconds=300), datetime.timedelta(days=1))
    """
    doublings = min(attempt - 1, DOUBLINGS_MAX)
    pauses = effect if isinstance(effect, Remote) else _DEFAULTS
    ceiling = min(pauses.retry_seconds_max, pauses.retry_first_seconds * 2**doublings)
    asked = retry_after_s if isinstance(retry_after_s, int | float) else 0.0
    asked = 0.0 if math.isnan(asked) else min(max(asked, 0.0), RETRY_AFTER_SECONDS_MAX)
    return timedelta(seconds=max(ceiling * dice, asked))
