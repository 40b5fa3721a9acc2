"""What becomes of an attempt that nobody knows of: found out, repeated, or left to a person.

    find says              it happened            succeeded
                           it never arrived       due again, or failed once its attempts are used up
                           nothing                repeated, asked again later, or parked
    the provider keeps     our key, still         due again under it
                           our key, no longer     parked, unless find can say more
                           nothing                parked

Nothing is guessed, and nothing that may have arrived is repeated unless a repeat is harmless.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from takeback.declare import Keyed, Remote
from takeback.dispatch.outcome import wait_before
from takeback.dispatch.pace import Pace
from takeback.dispatch.work import Unfit, Work
from takeback.ledger.doubting import Doubt
from takeback.model import command as commands
from takeback.model.intent import Intent

KEY_MARGIN_SHARE = 0.05
"""Of a key's life, so much is not relied upon, beside the time of an attempt: the provider's clock
is not ours, and it may forget a little early."""

ASK_SECONDS_MAX = 3600.0
"""The longest pause between two questions about one doubt."""

DOUBT_SECONDS_MAX = 86_400.0
"""After a day without an answer a person has to look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A doubt with all that decides about it, at ``now``. ``dice`` in [0, 1) spreads repeats, and
    ``spared`` of the intent's attempts count for nothing: they met an outage, or were never called.
    """

    intent: Intent
    work: Work
    doubt: Doubt
    now: datetime
    dice: float
    spared: int = 0

    @property
    def is_askable(self) -> bool:
        """Whether the handler can ask the provider. Of what takes back, ``find`` knows nothing."""
        return self.work.original is None and self.work.bound.handler.find is not None

    @property
    def is_repeatable(self) -> bool:
        """Whether the provider keeps our key still, so that a repeat is harmless."""
        until = self.key_until
        return until is not None and self.now < until

    @property
    def key_until(self) -> datetime | None:
        """Until when a repeat under the key may begin; None where the provider keeps none."""
        effect = self.work.bound.effect
        if not isinstance(effect, Remote) or not isinstance(effect.upstream, Keyed):
            return None
        ttl = effect.upstream.ttl
        margin = timedelta(seconds=self.work.seconds_max) + ttl * KEY_MARGIN_SHARE
        return self.doubt.first_began_at + ttl - margin

    @property
    def has_attempts_left(self) -> bool:
        """Whether its row allows another attempt."""
        effect = self.work.bound.effect
        return isinstance(effect, Remote) and self.attempts < effect.attempts_max

    @property
    def attempts(self) -> int:
        """How many of its attempts count."""
        return self.intent.attempt - self.spared


def ask_from(doubt: Doubt, pace: Pace, work: Work | Unfit) -> datetime:
    """When a doubt may first be asked about: whoever made the attempt has given it up by then.

    An attempt that may outlast its lease runs on in its thread after that is lost, as long as its
    row allows, and may begin its call late in its first lease: nothing is proved, or repeated,
    before it has ended. Only a repeat under a key that the provider keeps needs no such wait.
    """
    since_begin = doubt.began_at + pace.reconcile_after
    if isinstance(work, Work) and work.renews_lease and not _needs_no_proof(work):
        since_begin += timedelta(seconds=work.seconds_max)
    return max(since_begin, doubt.since + (pace.reconcile_after - pace.lease))


def _needs_no_proof(work: Work) -> bool:
    return work.is_keyed and work.bound.handler.find is None


def unasked(case: Case) -> commands.Requeue | commands.Park:
    """What becomes of a doubt that no question ends."""
    if not case.is_repeatable:
        is_forgotten = case.key_until is not None
        return commands.Park(cause="key_expired" if is_forgotten else "outcome_unknown")
    if not case.has_attempts_left:
        return commands.Park(cause="outcome_unknown")
    return commands.Requeue(
        cause="provider_key", begin_before=case.key_until, wait=_wait(case, case.key_until)
    )


def absent(case: Case) -> commands.Requeue | None:
    """The provider proves that nothing arrived: due again; None when its attempts are used up.

    The key stays the same while the provider keeps it: what is still under way to it does no harm
    then. A new one begins a new life.
    """
    if not case.has_attempts_left:
        return None
    is_forgotten = case.key_until is not None and not case.is_repeatable
    return commands.Requeue(
        cause="absent",
        new_epoch=is_forgotten and not case.intent.contradicted,
        wait=_wait(case, None),
    )


def unanswered(case: Case, pace: Pace) -> commands.Requeue | commands.Park | datetime:
    """Nobody could say: the command, or when to ask again. The pauses grow with the doubt."""
    if case.is_repeatable and case.has_attempts_left:
        return unasked(case)
    age = case.now - case.doubt.since
    if age >= timedelta(seconds=DOUBT_SECONDS_MAX):
        return unasked(case)
    pause = max(pace.reconcile_after * 2, age)
    return case.now + min(pause, timedelta(seconds=ASK_SECONDS_MAX))


def _wait(case: Case, until: datetime | None) -> timedelta:
    """A pause before the repeat, counted from the doubt; none where a key would be forgotten."""
    pause = wait_before(case.intent.attempt, None, case.dice, case.work.bound.effect)
    wait = max(pause - (case.now - case.doubt.since), timedelta(0))
    return wait if until is None or case.now + wait < until else timedelta(0)
