"""Moving an intent by a command, as some other part of the engine would."""

from takeback.client.looking import find
from takeback.ledger.appending import Change, append
from takeback.ledger.locking import lock
from takeback.model import command as commands
from takeback.model.decide import decide
from takeback.model.event import Event
from takeback.model.evolve import foresee
from takeback.model.intent import Intent
from tests.dispatch.office import Office


def step(office: Office, ref: str | None, *chain: commands.Command) -> Intent:
    """The intent of ``ref`` after these commands, in one transaction."""
    with office.context.database.transaction() as tx:
        (taken,) = lock(tx, office.context.tenant, [find(office.context, tx, ref or "").intent.id])
        events: list[Event] = []
        intent = taken.intent
        for command in chain:
            events += (following := decide(intent, command, taken.now))
            intent = foresee(intent, following, taken.now)
        return append(tx, [Change(taken=taken, events=events)])[0]
