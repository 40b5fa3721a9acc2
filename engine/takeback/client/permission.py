"""Whether a call may be made without a person, as far as the call itself tells.

What hangs on rows or on sums is looked at later, in the transaction: see ``client.foresight``.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from takeback.client.context import Context
from takeback.client.face import Broke, try_face
from takeback.declare import Approval, Tool
from takeback.log import logger
from takeback.model import errors
from takeback.model.command import ApprovalCause
from takeback.model.intent import Intent
from takeback.model.policy import Permission, Proposal, permission_of
from takeback.model.principal import UNNAMED, is_agent


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonFirst:
    """A person decides first: why, and how long they have."""

    cause: ApprovalCause
    stays_open: timedelta


@dataclass(frozen=True, slots=True)
class Forbidden:
    """The app's policy says no: to a new call, never to the repeat of one that was made."""


def permission(context: Context, tool: Tool, proposal: Proposal) -> PersonFirst | Forbidden | None:
    """What has to be known before ``proposal`` is carried out; None when nothing has to be.

    The strictest word holds: what the policy refuses, no row has a person asked about.
    """
    word = _word_of_policy(context, proposal)
    if word is Permission.REFUSE:
        return Forbidden()
    approval = tool.approval
    if approval is not None and approval.repeats and proposal.repeat_of is not None:
        return person_first(tool, "repeat")
    if approval is not None and _wants_person(approval, proposal.arguments):
        return person_first(tool, "row")
    return person_first(tool, "policy") if word is Permission.ASK else None


def require_granted(context: Context, intent: Intent, *, run: str | None, principal: str) -> None:
    """Raises NotGranted when an agent may not take back ``intent``.

    It may take back what its own principal did, what agents did in its own run, and what its app
    grants. Persons may take back anything of their tenant, and so may the app's own code, which
    names nobody.
    """
    if not is_agent(principal) or principal in (intent.principal, UNNAMED):
        return
    if run is not None and run == intent.run and is_agent(intent.principal):
        return
    granted = context.grants.get(principal, frozenset())
    if "*" in granted or intent.principal in granted:
        return
    raise errors.NotGranted(
        f"{intent.ref} was done by somebody else, in another run: ask a person to take it back"
    )


def person_first(tool: Tool, cause: ApprovalCause) -> PersonFirst:
    """The request for a decision about a call of ``tool``."""
    return PersonFirst(cause=cause, stays_open=(tool.approval or Approval()).expires)


def _wants_person(approval: Approval, arguments: Mapping[str, Any]) -> bool:
    if approval.is_of_every_call:
        return True
    if approval.argument is None or approval.over is None:
        return False
    return bool(arguments[approval.argument] > approval.over)


def _word_of_policy(context: Context, proposal: Proposal) -> Permission:
    """A policy is other people's code: what it breaks with is no permission, whatever it says.

    It gets arguments of its own: those of the call are what is keyed, weighed and recorded.
    """
    if context.policy is None:
        return Permission.ALLOW
    given = replace(proposal, arguments=deepcopy(dict(proposal.arguments)))
    try:
        answer = try_face(context.policy, given)
    except (errors.HandlerError, errors.Conflict, errors.RetryTransaction) as problem:
        answer = Broke(problem)
    if isinstance(answer, Broke):
        logger.error("policy_broke", tool=proposal.tool, exc_info=answer.problem)
        return Permission.ASK
    return permission_of(answer)
