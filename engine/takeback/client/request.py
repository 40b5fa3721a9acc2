"""A call that has been checked and keyed, ready to be recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from takeback.catalog.registry import RESERVED_PROPERTIES, Bound
from takeback.client.context import Context
from takeback.client.limiting import counted
from takeback.client.permission import Forbidden, PersonFirst, permission
from takeback.client.term import refs_of, term_violations
from takeback.declare import Key, Local, Read, Remote, Tool
from takeback.declare.tool import ScopeKind
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.arguments import Arguments, validate
from takeback.model.chain import SALT_BYTES, body_digest
from takeback.model.decide import record as decide_recording
from takeback.model.event import Recorded
from takeback.model.intent import Intent
from takeback.model.key import IdempotencyKey, canonical_bytes, derive_key, derive_ordering
from takeback.model.policy import Proposal
from takeback.model.ref import ENTROPY_BYTES, make_ref, normalise
from takeback.model.violation import Violation, of_term

RUN_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On what terms a call is made: by whom, for whom, in which run, and on which conditions.

    As they were said: nothing of it is checked yet.
    """

    run: str | None
    principal: str
    on_behalf_of: str | None = None
    repeat_of: str | None = None
    expect: str | None = None
    not_before: datetime | None = None
    after: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call on its way: ``event`` is what will be recorded, ``body`` its stored arguments.

    ``former_keys`` are the keys that earlier recipes of the row give it, ``asked`` whom to ask
    first, ``affected`` a salt and the body of what it was foreseen to affect, ``rows`` how many
    things that are, as far as it is known. ``is_limited``: limits count it. ``follows`` is what its
    generation comes after.
    """

    bound: Bound
    arguments: Arguments
    command: commands.Record
    event: Recorded
    body: str
    salt: bytes
    trace_id: str
    repeat_of: str | None
    expect: str | None = None
    former_keys: tuple[str, ...] = ()
    asked: PersonFirst | Forbidden | None = None
    affected: tuple[bytes, str] | None = None
    rows: int | None = None
    is_limited: bool = False
    follows: Intent | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the recording itself has to be looked at."""
        return not (self.repeat_of or self.former_keys or self.looks_ahead)

    @property
    def counts_rows(self) -> bool:
        """Whether it matters how many things it would affect."""
        approval = self.bound.tool.approval
        return self.is_limited or (approval is not None and approval.rows_over is not None)

    @property
    def looks_ahead(self) -> bool:
        """Whether more has to be known than the call says, before it is recorded."""
        waits = bool(self.command.after)
        return waits or self.expect is not None or self.asked is not None or self.counts_rows


def to_be_decided(
    request: Request, person: PersonFirst, affected: tuple[bytes, str] | None
) -> Request:
    """The same call, as one that a person decides about first."""
    command = replace(
        request.command,
        ref=request.event.ref,
        generation=request.event.generation,
        needs_approval=True,
        approval_cause=person.cause,
        approval_for=person.stays_open,
        affected=None if affected is None else body_digest(*affected),
    )
    return replace(
        request,
        asked=person,
        command=command,
        event=decide_recording(command),
        affected=affected,
    )


def prepare(
    context: Context, tool: str, received: Mapping[str, Any], terms: Terms, *, trace_id: str
) -> Request:
    """Checks a call and derives its key.

    Raises UnknownTool, InvalidArguments with every violation, or NoSuchRef for a ``repeat_of``, or
    one of ``after``, that is nothing like a ref.
    """
    bound = context.registry.tool(str(tool))
    own, reserved = _split(bound.tool, received)
    violations: list[Violation] = []
    arguments = _validated(bound.tool, own, violations)
    repeat_of = _reserved("repeat_of", terms.repeat_of, reserved, violations)
    expect = _reserved("expect", terms.expect, reserved, violations)
    violations += identifier_violations(
        run=terms.run, principal=terms.principal, on_behalf_of=terms.on_behalf_of
    )
    violations += _scope_violations(bound.tool, terms.run)
    violations += term_violations(bound.tool, not_before=terms.not_before, after=terms.after)
    if violations or arguments is None:
        raise errors.InvalidArguments(violations)
    if repeat_of is not None:
        if not repeat_of.isascii():
            raise errors.NoSuchRef(repeat_of)
        repeat_of = normalise(repeat_of)
    proposal = Proposal(
        tool=bound.name,
        tier=bound.tool.tier,
        arguments=arguments.canonical,
        run=terms.run,
        principal=terms.principal,
        on_behalf_of=terms.on_behalf_of,
        repeat_of=repeat_of,
    )
    return _keyed(
        context,
        bound,
        arguments,
        proposal,
        expect=expect,
        terms=terms,
        trace_id=trace_id,
    )


def _keyed(
    context: Context,
    bound: Bound,
    arguments: Arguments,
    proposal: Proposal,
    *,
    expect: str | None,
    terms: Terms,
    trace_id: str,
) -> Request:
    """The request that a checked call is: whom to ask, its keys, and what will be recorded."""
    body = canonical_bytes(arguments.canonical).decode()
    salt = context.entropy(SALT_BYTES)
    writes = not isinstance(bound.effect, Read)
    wanted = permission(context, bound.tool, proposal) if writes else None
    keys = _keys(context, bound.tool, proposal)
    command = _command(
        context,
        bound.tool,
        proposal,
        key=keys[0],
        asked=wanted,
        terms=terms,
        digest=body_digest(salt, body),
    )
    return Request(
        bound=bound,
        arguments=arguments,
        command=command,
        event=decide_recording(command),
        body=body,
        salt=salt,
        trace_id=trace_id,
        repeat_of=proposal.repeat_of,
        expect=expect,
        former_keys=keys[1:],
        asked=wanted,
        is_limited=bool(counted(context, bound.tool)),
    )


def with_beside(arguments: Any, beside: Mapping[str, Any]) -> Any:
    """The arguments of a tool that takes no terms, with those that were said: so they are refused.

    >>> with_beside({"ref": "a"}, {"expect": None, "repeat_of": "b"})
    {'ref': 'a', 'repeat_of': 'b'}
    """
    said = {name: value for name, value in beside.items() if value is not None}
    return {**arguments, **said} if said and isinstance(arguments, Mapping) else arguments


def identifier_violations(*, run: Any, principal: Any, on_behalf_of: Any = None) -> list[Violation]:
    """What is wrong with these: they stand in the log for ever, so short, and on one line.

    What a principal may do hangs on its prefix, so one that is neither of the two is a mistake.
    """
    violations = [
        of_term(name, value, "malformed", f"must be 1 to {RUN_LENGTH_MAX} {_PRINTABLE}")
        for name, value in (("run", run), ("principal", principal), ("on_behalf_of", on_behalf_of))
        if not (_is_identifier(value) or (name != "principal" and value is None))
    ]
    if violations:
        return violations
    said = "must be agent:NAME for an agent, user:NAME or a plain name for a person"
    return [
        of_term(name, value, "malformed", said)
        for name, value in (("principal", principal), ("on_behalf_of", on_behalf_of))
        if value is not None and ":" in value and not _names_somebody(value)
    ]


def _names_somebody(principal: str) -> bool:
    kind, _, name = principal.partition(":")
    return kind in ("agent", "user") and name != ""


_PRINTABLE = "printable characters without white space"


def _is_identifier(value: Any) -> bool:
    usable = isinstance(value, str) and 0 < len(value) <= RUN_LENGTH_MAX
    return usable and value.isprintable() and not any(c.isspace() for c in value)


def _validated(tool: Tool, received: Any, violations: list[Violation]) -> Arguments | None:
    try:
        return validate(tool, received)
    except errors.InvalidArguments as problem:
        violations += problem.violations
        return None


def _split(tool: Tool, received: Any) -> tuple[Any, dict[str, Any]]:
    """A model sends the reserved arguments among its own."""
    if isinstance(tool.effect, Read) or not isinstance(received, Mapping):
        return received, {}
    reserved = {name: received[name] for name in RESERVED_PROPERTIES if name in received}
    return {name: value for name, value in received.items() if name not in reserved}, reserved


def _reserved(
    name: str, given: str | None, reserved: Mapping[str, Any], violations: list[Violation]
) -> str | None:
    sent = reserved.get(name)
    value = sent if given is None else given
    if value is not None and not isinstance(value, str):
        violations.append(of_term(name, value, "wrong_type", "must be text"))
    elif given is not None and sent is not None and given != sent:
        violations.append(of_term(name, sent, "malformed", "is given twice, with two values"))
    return value


def _scope_violations(tool: Tool, run: str | None) -> Iterator[Violation]:
    if (
        run is None
        and not isinstance(tool.effect, Read)
        and tool.recipe.scope.kind is ScopeKind.RUN
    ):
        yield of_term("run", None, "missing", f"is required: {tool.name} is recorded once per run")


def _keys(context: Context, tool: Tool, proposal: Proposal) -> tuple[IdempotencyKey, ...]:
    """The key of the call, then those that earlier recipes of the row give it, each once."""
    recipes = [tool.recipe, *tool.recipe.former]
    keys = [
        derive_key(
            tenant=context.tenant,
            tool=tool.name,
            recipe=recipe,
            arguments=proposal.arguments,
            run=proposal.run,
            repeat_of=proposal.repeat_of,
            secret=context.key_secret,
        )
        for recipe in recipes
        if proposal.run is not None or not _is_former_of_runs(tool, recipe)
    ]
    return tuple(dict.fromkeys(keys))


def _is_former_of_runs(tool: Tool, recipe: Key) -> bool:
    """Without a run there can be nothing that a recipe of runs has recorded."""
    return recipe is not tool.recipe and recipe.scope.kind is ScopeKind.RUN


def _command(
    context: Context,
    tool: Tool,
    proposal: Proposal,
    *,
    key: IdempotencyKey,
    asked: PersonFirst | Forbidden | None,
    terms: Terms,
    digest: str,
) -> commands.Record:
    effect = tool.effect
    remote = effect if isinstance(effect, Remote) else None
    not_before = terms.not_before
    person = asked if isinstance(asked, PersonFirst) else None
    return commands.Record(
        ref=make_ref(tool.name, context.entropy(ENTROPY_BYTES)),
        tool=tool.name,
        tool_version=tool.version,
        effect="local" if isinstance(effect, Local) else "remote",
        key=key,
        generation=0,
        run=proposal.run,
        principal=proposal.principal,
        arguments=digest,
        window=remote.window if remote is not None else timedelta(0),
        not_before=not_before.astimezone(UTC) if not_before is not None else None,
        after=refs_of(terms.after),
        needs_approval=person is not None,
        repeat_of=proposal.repeat_of,
        on_behalf_of=proposal.on_behalf_of,
        approval_cause=person.cause if person is not None else "row",
        approval_for=person.stays_open if person is not None else None,
        lane=(remote.connector or "") if remote is not None else "",
        priority=int(remote.priority) if remote is not None else 0,
        ordering=_ordering(context, tool, remote, proposal.arguments),
    )


def _ordering(
    context: Context, tool: Tool, remote: Remote | None, arguments: Mapping[str, Any]
) -> str | None:
    """What stands for all that is carried out one at a time with this call; None: it need not be.

    Like a key it holds nothing that can be read or, with a key secret, guessed.
    """
    if remote is None or remote.order_by is None:
        return None
    value = arguments.get(remote.order_by)
    if value is None:
        return None
    return derive_ordering(
        tenant=context.tenant,
        among=remote.connector or tool.name,
        value=value,
        secret=context.key_secret,
    )
