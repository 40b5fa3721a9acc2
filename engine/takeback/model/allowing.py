"""What every decision asks of an intent before it says what becomes of it."""

from __future__ import annotations

from datetime import timedelta

from takeback.model import command as commands
from takeback.model import event as events
from takeback.model.errors import InvalidTransition
from takeback.model.intent import Intent, State, may_have_happened


def require(intent: Intent, command: commands.Command, *states: State) -> None:
    """Raises InvalidTransition when the intent is in none of the states."""
    if intent.state not in states:
        raise refusal(intent, command)


def require_untouched(intent: Intent, command: commands.Command) -> None:
    """Raises InvalidTransition where an attempt may be in the world: nothing that is not carried
    out can be said to never happen then.
    """
    if may_have_happened(intent):
        raise refusal(intent, command)


def refusal(intent: Intent, command: commands.Command) -> InvalidTransition:
    """The command is not for the state that the intent is in."""
    return InvalidTransition(intent.state.value, name_of(command))


def name_of(command: commands.Command) -> str:
    """What a command is called in a refusal.

    >>> name_of(commands.Cancel(by="dana", via=None))
    'Cancel'
    """
    return type(command).__name__


def released(intent: Intent) -> events.AwokenState:
    """Where an intent goes that nobody waits for any more: its window opens, or it is due."""
    return "held" if intent.window or intent.not_before is not None else "due"


def span_us(span: timedelta | None) -> int | None:
    """Microseconds; None where there is no end.

    >>> span_us(timedelta(seconds=1)), span_us(None)
    (1000000, None)
    """
    return None if span is None else span // timedelta(microseconds=1)
