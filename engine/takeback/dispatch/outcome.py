"""What became of an attempt, and the command that says so to the ledger.

Only ``NotDispatched``, ``Rejected`` and ``InvalidReference`` prove that nothing happened. Whatever
else ends an attempt that had begun leaves it in doubt.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from takeback.client.body import count_of, outcome_body, refusal_body
from takeback.client.face import Broke, performed
from takeback.declare import Remote, Tool
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.command import DoubtCause
from takeback.model.intent import Intent

RETRY_FIRST_SECONDS = 1.0
RETRY_SECONDS_MAX = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one attempt: the kind, and the body that is stored beside its event.

    ``kind``: succeeded, failed, deferred or in_doubt.
    """

    kind: Literal["succeeded", "failed", "deferred", "in_doubt"]
    body: str | None = None
    affected_count: int = 0
    code: str = ""
    cause: DoubtCause = "exception"
    retry_after_s: float | None = None


def of_answer(answer: object) -> Outcome:
    """The outcome behind what a face answered, or ``Broke``."""
    if isinstance(answer, Broke):
        return Outcome(kind="in_doubt", cause="exception")
    done = performed(answer)
    return Outcome(kind="succeeded", body=outcome_body(done), affected_count=count_of(done))


def of_refusal(problem: errors.TakebackError) -> Outcome:
    """The outcome that a handler proved by what it raised."""
    match problem:
        case errors.NotDispatched():
            return Outcome(kind="deferred", retry_after_s=problem.retry_after_s)
        case errors.Rejected():
            return _failed(problem.code, problem.message, list(problem.alternatives))
        case errors.InvalidReference():
            return _failed(problem.code, problem.message, list(problem.permitted))
        case errors.OutcomeUnknown():
            return Outcome(kind="in_doubt", cause="outcome_unknown")
        case _:
            return Outcome(kind="in_doubt", cause="exception")


def _failed(code: str, message: str, alternatives: list[object]) -> Outcome:
    return Outcome(kind="failed", body=refusal_body(code, message, alternatives), code=code)


def command_for(
    outcome: Outcome, intent: Intent, tool: Tool, digest: str | None, dice: float
) -> commands.Command:
    """The command that settles an attempt of ``intent``; ``dice`` in [0, 1) spreads retries."""
    match outcome.kind:
        case "succeeded":
            return commands.Succeed(result=digest, affected_count=outcome.affected_count)
        case "failed":
            return commands.Fail(code=outcome.code, error=digest)
        case "deferred":
            effect = tool.effect
            attempts_max = effect.attempts_max if isinstance(effect, Remote) else 1
            if intent.attempt >= attempts_max:
                return commands.Fail(code="provider_unavailable")
            return commands.Defer(wait=wait_before(intent.attempt, outcome.retry_after_s, dice))
        case _:
            return commands.LoseTrack(cause=outcome.cause)


def wait_before(attempt: int, retry_after_s: float | None, dice: float) -> timedelta:
    """Exponential with full jitter, and never before the provider's own word.

    >>> wait_before(3, None, 0.5)
    datetime.timedelta(seconds=2)
    >>> wait_before(1, 60.0, 0.0)
    datetime.timedelta(seconds=60)
    """
    ceiling = min(RETRY_SECONDS_MAX, RETRY_FIRST_SECONDS * 2 ** (attempt - 1))
    return timedelta(seconds=max(ceiling * dice, retry_after_s or 0.0))
