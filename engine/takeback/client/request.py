"""A call that has been checked and keyed, ready to be recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from takeback.catalog.registry import Bound
from takeback.client.context import Context
from takeback.declare import Approval, Local, Read, Remote, Tool
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.arguments import Arguments, validate
from takeback.model.chain import body_digest
from takeback.model.decide import record as decide_recording
from takeback.model.event import Recorded
from takeback.model.key import canonical_bytes, derive_key
from takeback.model.ref import make_ref, normalise
from takeback.model.violation import Repair, Violation

RUN_LENGTH_MAX = 200
SALT_BYTES = 32
REF_BYTES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call on its way: ``event`` is what will be recorded, ``body`` its stored arguments."""

    bound: Bound
    arguments: Arguments
    event: Recorded
    body: str
    salt: bytes
    trace_id: str
    repeat_of: str | None


def prepare(
    context: Context,
    tool: str,
    received: Mapping[str, Any],
    *,
    run: str | None,
    principal: str,
    repeat_of: str | None,
    expect: str | None,
    not_before: datetime | None,
    trace_id: str,
) -> Request:
    """Checks a call and derives its key.

    Raises UnknownTool, InvalidArguments with every violation, or PreviewStale.
    """
    bound = context.registry.tool(tool)
    writes = not isinstance(bound.tool.effect, Read)
    own, reserved = _split(received) if writes and isinstance(received, dict) else (received, {})
    arguments = validate(bound.tool, own)
    repeat_of = _reserved("repeat_of", repeat_of, reserved)
    if _reserved("expect", expect, reserved) is not None:
        raise errors.PreviewStale(
            "no preview has issued this value of 'expect'; leave it out, or take one from a preview"
        )
    violations = [*_identifier("run", run), *_identifier("principal", principal)]
    if not_before is not None and not_before.tzinfo is None:
        violations.append(_violation("not_before", not_before, "needs a time zone"))
    if not_before is not None and not isinstance(bound.tool.effect, Remote):
        violations.append(_violation("not_before", not_before, "only a remote effect can wait"))
    if violations:
        raise errors.InvalidArguments(violations)
    repeat_of = normalise(repeat_of) if repeat_of is not None else None
    body = canonical_bytes(arguments.canonical).decode()
    salt = context.entropy(SALT_BYTES)
    command = _command(
        context,
        bound.tool,
        arguments,
        run=run,
        principal=principal,
        repeat_of=repeat_of,
        not_before=not_before,
        digest=body_digest(salt, body),
    )
    return Request(
        bound=bound,
        arguments=arguments,
        event=decide_recording(command),
        body=body,
        salt=salt,
        trace_id=trace_id,
        repeat_of=repeat_of,
    )


def _command(
    context: Context,
    tool: Tool,
    arguments: Arguments,
    *,
    run: str | None,
    principal: str,
    repeat_of: str | None,
    not_before: datetime | None,
    digest: str,
) -> commands.Record:
    effect = tool.effect
    return commands.Record(
        ref=make_ref(tool.name, context.entropy(REF_BYTES)),
        tool=tool.name,
        tool_version=tool.version,
        effect="local" if isinstance(effect, Local) else "remote",
        key=derive_key(
            tenant=context.tenant,
            tool=tool.name,
            recipe=tool.recipe,
            arguments=arguments.canonical,
            run=run,
            repeat_of=repeat_of,
            secret=context.key_secret,
        ),
        generation=0,
        run=run,
        principal=principal,
        arguments=digest,
        window=effect.window if isinstance(effect, Remote) else timedelta(0),
        not_before=not_before.astimezone(UTC) if not_before is not None else None,
        needs_approval=_needs_approval(tool.approval, arguments.canonical),
        repeat_of=repeat_of,
    )


def _needs_approval(approval: Approval | None, arguments: Mapping[str, Any]) -> bool:
    if approval is None:
        return False
    if approval.argument is None or approval.over is None:
        return True
    return bool(arguments[approval.argument] > approval.over)


def _split(received: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A model sends the reserved arguments among its own."""
    reserved = {name: received[name] for name in ("repeat_of", "expect") if name in received}
    return {name: value for name, value in received.items() if name not in reserved}, reserved


def _reserved(name: str, given: str | None, reserved: Mapping[str, Any]) -> str | None:
    value = given if given is not None else reserved.get(name)
    if value is None or isinstance(value, str):
        return value
    raise errors.InvalidArguments([_violation(name, value, "must be a string")])


def _identifier(name: str, value: Any) -> list[Violation]:
    """Runs and principals stand in the log for ever: short, one line, no white space."""
    if value is None and name == "run":
        return []
    usable = isinstance(value, str) and 0 < len(value) <= RUN_LENGTH_MAX
    if usable and value.isprintable() and not any(c.isspace() for c in value):
        return []
    return [
        _violation(
            name, value, f"must be 1 to {RUN_LENGTH_MAX} printable characters without white space"
        )
    ]


def _violation(field: str, received: Any, message: str) -> Violation:
    return Violation(
        field=field,
        code="invalid",
        message=message,
        received=str(received)[:RUN_LENGTH_MAX],
        repair=Repair.CHOICE,
    )
