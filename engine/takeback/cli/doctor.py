"""``doctor``: everything that a person looks at first, and what of it is wrong.

It looks on where something is broken: a setting that can't be used does not hide the database, nor
an app that can't be loaded the queue.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeback.cli.door import Door, door_of
from takeback.cli.failure import DONE, REFUSED, UNAVAILABLE, Failure, of_error, reason_of
from takeback.cli.remainder import claimed_text, parked_text
from takeback.cli.sheet import columns
from takeback.cli.sheet import field as labelled
from takeback.cli.voice import plain

if TYPE_CHECKING:
    from takeback.app import Takeback
    from takeback.ledger.health import Health, Queue
    from takeback.settings import Settings

SERVER_OLDEST = 150_000
CLOCK_SECONDS_MAX = 5.0
"""Workers' clocks decide nothing; a person who reads a log beside the ledger is misled by more."""

HOLDER_SECONDS_MAX = 60.0
NOT_SHOWN = "***"


@dataclass(slots=True)
class Examination:
    """What was found: a document, what is wrong, what waits for a person, what is worth knowing."""

    document: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    attention: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    limits: list[tuple[str, str]] = field(default_factory=list)
    away: str | None = None


def doctor(
    context: typer.Context,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Show passwords and keys as they are.")
    ] = False,
) -> int:
    """Look at everything, and say what is wrong.

    The settings and where each comes from, the database, the schema, the clock, the queue, the
    app, and what a deploy of it would strand. Ends with 1 when something is wrong.
    """
    door = door_of(context)
    found = Examination()
    usable = _settings(door, found, show_secrets=show_secrets)
    app = _app(door, found, usable)
    _database(app, found, show_secrets=show_secrets)
    _broker(usable, found, show_secrets=show_secrets)
    if len(app.registry):
        _limits(app, found)
    return _told(door, found)


def _settings(door: Door, found: Examination, *, show_secrets: bool) -> Settings:
    """Lists every setting; answers with those that can be used, and defaults for the others."""
    from takeback import settings

    listed, usable, sources = [], {}, {}
    for one in settings.review(door.environ, door.directory):
        source = "--app" if one.name == "app" and door.app_name else one.source
        listed.append(
            {
                "name": one.name,
                "value": one.value if show_secrets else _masked(one.name, one.value),
                "source": source,
                "problem": one.problem,
            }
        )
        if one.problem is not None:
            found.problems.append(one.problem)
        else:
            usable[one.name], sources[one.name] = one.value, source
    found.document["settings"] = listed
    return settings.Settings(**usable, sources=sources)


def _masked(name: str, value: Any) -> Any:
    from takeback.settings import masked

    if name.endswith("_url") and isinstance(value, str):
        return masked(value)
    return NOT_SHOWN if name == "key_secret" and value is not None else value


def _app(door: Door, found: Examination, usable: Settings) -> Takeback:
    """The app that is named, or one without tools where that can't be loaded."""
    from takeback.model.errors import InvalidCatalog, InvalidSettings

    document: dict[str, Any] = {"name": usable.app, "problem": None, "tools": []}
    found.document["app"] = document
    if usable.app is None:
        found.notes.append("no app is named: tools and handlers were not looked at")
    elif not found.problems:
        try:
            app = door.app()
            document["tools"] = _tools(app)
            return app
        except (InvalidSettings, InvalidCatalog) as refused:
            document["problem"] = str(refused)
            found.problems.append(str(refused))
    return door.bare_ledger(usable)


def _tools(app: Takeback) -> list[dict[str, Any]]:
    from takeback.catalog.binding import FACES

    return [
        {
            "tool": bound.name,
            "version": bound.tool.version,
            "effect": type(bound.effect).__name__.lower(),
            "faces": [face for face in FACES if getattr(bound.handler, face) is not None],
        }
        for bound in app.registry
    ]


def _database(app: Takeback, found: Examination, *, show_secrets: bool) -> None:
    from takeback.model.errors import TakebackError
    from takeback.settings import masked

    given = app.settings.database_url
    named = app.settings.sources.get("database_url", "the app")
    source = "embedded" if given is None else named
    database: dict[str, Any] = {"url": None, "source": source, "version": None, "problem": None}
    found.document |= {"database": database, "schema": None, "clock": None, "queue": None}
    found.document |= {"faults_last_day": None, "latest_faults": []}
    try:
        url = app.database_url
        database["url"] = url if show_secrets else masked(url)
        before = time.time()
        health = app.health()
        after = time.time()
    except TakebackError as problem:
        reason = reason_of(problem)
        database["problem"] = f"{problem}: {reason}" if reason else str(problem)
        found.problems.append(f"database: {database['problem']}")
        if of_error(problem).exit == UNAVAILABLE:
            found.away = "database_unavailable"
        return
    database["version"] = health.server_version
    _server(health, found, here=(before + after) / 2)
    _schema(health, found)
    _faults(health, found)
    is_current = health.revision == found.document["schema"]["latest"]
    _brakes(app, found, is_current=is_current)
    _lanes(app, health, found)
    if health.queue is not None:
        _queue(health.queue, found)
        _remainder(app, found, is_current=is_current)
        _versions(app, health.queue, found)
        _keys(app, found, is_current=is_current)


def _server(health: Health, found: Examination, *, here: float) -> None:
    if health.server_number < SERVER_OLDEST:
        found.problems.append(f"the server is Postgres {health.server_version}; expected 15 to 18")
    if health.is_replica:
        found.problems.append("the server is a replica; expected the primary in the database URL")
    ahead = round(health.now.timestamp() - here, 3)
    found.document["clock"] = {"database_ahead_seconds": ahead}
    if abs(ahead) > CLOCK_SECONDS_MAX:
        found.notes.append(
            f"the database's clock is {abs(ahead):.1f} s {'ahead' if ahead > 0 else 'behind'} "
            "of this machine's; the database's decides"
        )


def _schema(health: Health, found: Examination) -> None:
    from takeback_migrations.upgrade import latest_revision

    latest = latest_revision()
    found.document["schema"] = {"revision": health.revision, "latest": latest}
    if health.revision is None:
        found.problems.append("the database has no ledger yet; next: `takeback migrate`")
    elif health.revision < latest:
        found.problems.append(
            f"the schema is at {health.revision}, this release wants {latest}; "
            "next: `takeback migrate`"
        )
    elif health.revision > latest:
        found.notes.append(
            f"the schema is at {health.revision}, of a release after this one ({latest})"
        )


def _faults(health: Health, found: Examination) -> None:
    from takeback.model.moment import iso

    found.document["faults_last_day"] = health.faults
    found.document["latest_faults"] = [
        asdict(one) | {"at": iso(one.at)} for one in health.latest_faults
    ]
    if health.faults:
        named = ", ".join(
            f"{one.trace_id} ({one.kind} in {one.tool or 'no tool'})"
            for one in health.latest_faults
        )
        found.notes.append(
            f"{health.faults} faults in the last day, the latest {named}: `takeback show` and the "
            "trace id say what each was"
        )


def _brakes(app: Takeback, found: Examination, *, is_current: bool) -> None:
    """What a person has stopped, and what is left under each limit."""
    from takeback.cli.freeze import freeze_document, freeze_line, thaw_command

    found.document |= {"freezes": [], "limits": []}
    if not is_current:
        return
    for freeze in app.freezes():
        found.document["freezes"].append(freeze_document(freeze))
        found.attention.append(
            f"frozen: {freeze_line(freeze)}; next: `takeback {thaw_command(freeze)}`"
        )
    for scope, excess in app.limits_in_use():
        document = excess.to_json()
        found.document["limits"].append({**document, "scope": scope, "used": excess.used})
        found.limits.append((f"  {scope}", excess.sentence()))
        if not excess.left:
            found.notes.append(f"a limit of {scope} is reached: {excess.sentence()}")


def _lanes(app: Takeback, health: Health, found: Examination) -> None:
    """What goes through each connector, and what an outage keeps."""
    from takeback.cli.lane import lane_document, pause_note

    connectors = app.registry.connectors
    found.document["connectors"] = [
        lane_document(one, connectors, health.now) for one in health.lanes
    ]
    notes = [pause_note(one) for one in found.document["connectors"]]
    found.attention += [note for note in notes if note is not None]


def _queue(queue: Queue, found: Examination) -> None:
    from takeback.model.moment import iso

    states: dict[str, int] = {}
    for one in queue.open:
        states[one.state] = states.get(one.state, 0) + one.count
    found.document["queue"] = {
        "states": states,
        "oldest_due_at": iso(queue.oldest_due_at) if queue.oldest_due_at else None,
        "overdue_seconds": queue.overdue_seconds,
        "expired_leases": queue.expired_leases,
        "in_doubt": states.get("in_doubt", 0),
        "parked": states.get("parked", 0),
        "holders": [
            {"pid": one.pid, "age_seconds": round(one.age_seconds, 3)} for one in queue.holders
        ],
    }
    if queue.expired_leases:
        found.notes.append(f"{queue.expired_leases} were left by a worker; the next takes over")
    for holder in queue.holders:
        if holder.age_seconds > HOLDER_SECONDS_MAX:
            found.notes.append(
                f"database process {holder.pid} has kept a recording transaction open for "
                f"{holder.age_seconds:.0f} s: readers of the log wait for it"
            )


def _remainder(app: Takeback, found: Examination, *, is_current: bool) -> None:
    """What waits for whom, and whether there is a sign of workers."""
    from takeback.cli.freeze import thaw_command
    from takeback.cli.remainder import remainder_document, to_see_to, untaken

    queue = found.document["queue"] | {"remainder": {}, "worker_seen_seconds": None}
    found.document["queue"] = queue
    if not is_current:
        return
    remainder, seen_seconds = app.remainder(all_tenants=True), app.worker_seen_seconds()
    queue |= {"remainder": remainder_document(remainder), "worker_seen_seconds": seen_seconds}
    found.attention += to_see_to(remainder, [thaw_command(one) for one in app.freezes()])
    by_broker = app.settings.broker_url is not None
    said, is_taken = untaken(remainder, seen_seconds, by_broker=by_broker)
    if said:
        (found.attention if is_taken else found.problems).append(said)


def _versions(app: Takeback, queue: Queue, found: Examination) -> None:
    """What is held under a version of its row that this app can't carry out."""
    from takeback.client.restore_tool import RESTORE

    stranded = []
    for one in queue.open if len(app.registry) else ():
        bound = app.registry.tool(one.tool) if one.tool in app.registry else None
        if one.tool == RESTORE.name:
            continue
        problem = None
        if bound is None:
            problem = "the catalog has no such tool"
        elif one.tool_version > bound.tool.version:
            problem = f"the catalog's row is older: version {bound.tool.version}"
        elif any(v not in bound.tool.upgrades for v in range(one.tool_version, bound.tool.version)):
            problem = f"no upgrade leads to version {bound.tool.version}"
        if problem is not None:
            stranded.append(
                {
                    "tool": one.tool,
                    "version": one.tool_version,
                    "state": one.state,
                    "intents": one.count,
                    "problem": problem,
                }
            )
            found.problems.append(
                f"{one.count} {one.state} of {one.tool} version {one.tool_version} are stranded: "
                f"{problem}"
            )
    found.document["stranded"] = stranded


def _keys(app: Takeback, found: Examination, *, is_current: bool) -> None:
    """What would be done again, since the key of its call is another one by now."""
    found.document["keys"] = []
    if not is_current:
        return
    for one in app.unfound():
        found.document["keys"].append(
            {"tool": one.tool, "intents": one.intents, "looked_at": one.looked_at}
        )
        found.problems.append(
            f"{one.intents} of the newest {one.looked_at} {one.tool} were recorded under a key "
            "that its row no longer gives: their calls would be done again; keep the former "
            "recipe in Key(..., former=(...)), and the key secret as it was"
        )


def _broker(usable: Settings, found: Examination, *, show_secrets: bool) -> None:
    """Whether the broker answers, and how many wake-ups wait in each queue."""
    from takeback.model.errors import TakebackError
    from takeback.process import workers
    from takeback.settings import masked

    found.document["broker"] = None
    url = usable.broker_url
    if url is None:
        return
    document: dict[str, Any] = {
        "url": url if show_secrets else masked(url),
        "source": usable.sources.get("broker_url"),
        "queues": None,
        "problem": None,
    }
    found.document["broker"] = document
    try:
        lengths = workers("broker").queue_lengths(url, usable.tenant)
        queues = workers("wake_up").QUEUES
        document["queues"] = {queues[one]: length for one, length in lengths.items()}
    except TakebackError as problem:
        reason = reason_of(problem)
        document["problem"] = f"{problem}: {reason}" if reason else str(problem)
        found.problems.append(f"broker: {document['problem']}")
        if found.away is None and of_error(problem).exit == UNAVAILABLE:
            found.away = problem.code


def _limits(app: Takeback, found: Examination) -> None:
    from takeback.dispatch.pace import check_pace
    from takeback.model.errors import InvalidSettings

    try:
        check_pace(app.pace, app.registry)
    except InvalidSettings as problem:
        found.problems.append(str(problem))


def _told(door: Door, found: Examination) -> int:
    found.document |= {
        "problems": found.problems,
        "attention": found.attention,
        "notes": found.notes,
    }
    exit_ = UNAVAILABLE if found.away else REFUSED if found.problems else DONE
    if exit_ == DONE:
        document = {"status": "done", **found.document}
    else:
        failure = Failure(
            exit=exit_,
            code=found.away or "failed_check",
            class_="transient" if found.away else "terminal",
            message="; ".join(found.problems),
            beside=found.document,
        )
        document = failure.document()
    if door.voice.json_wanted:
        door.voice.document(document)
        return exit_
    door.voice.lines(_page(door, found))
    _say_each(door, found.problems)
    if found.attention:
        head = f"{len(found.attention)} to see to:"
        nothing = "" if found.problems else "nothing is broken, and "
        door.voice.line(door.voice.strong(f"{nothing}{head}", "waiting"))
        _say_each(door, found.attention)
    return exit_


def _say_each(door: Door, sentences: Sequence[str]) -> None:
    for sentence in sentences:
        for number, line in enumerate(sentence.splitlines()):
            door.voice.line(f"{'    ' if number else '  - '}{plain(line)}")


def _page(door: Door, found: Examination) -> list[str]:
    document = found.document
    lines = ["settings"]
    rows = [
        (f"  {one['name']}", one["source"], "-" if one["value"] is None else str(one["value"]))
        for one in document["settings"]
    ]
    lines += columns(door.voice, ("  name", "from", "value"), rows)
    lines += _database_lines(document)
    if document["broker"] is not None:
        lines += ["", "broker", *_broker_lines(document["broker"])]
    if document["queue"] is not None:
        lines += ["", "queue", *_queue_lines(document["queue"])]
    if document["app"]["name"] is not None:
        lines += ["", "app", labelled("name", document["app"]["name"])]
        tools = [
            (f"  {one['tool']}", str(one["version"]), one["effect"], " ".join(one["faces"]))
            for one in document["app"]["tools"]
        ]
        if tools:
            lines += columns(door.voice, ("  tool", "row", "effect", "handler"), tools)
    if document.get("connectors"):
        from takeback.cli.lane import lane_cells

        headings = ("  connector", "under way", "due", "tokens", "state")
        cells = [lane_cells(one) for one in document["connectors"]]
        lines += ["", "connectors", *columns(door.voice, headings, cells)]
    if found.limits:
        lines += ["", "limits", *columns(door.voice, ("  of", "what is left"), found.limits)]
    lines += ["", *(f"note: {plain(note)}" for note in found.notes)] if found.notes else []
    lines.append("")
    if found.problems:
        lines.append(door.voice.strong(f"{len(found.problems)} wrong:", "bad"))
    elif not found.attention:
        lines.append(door.voice.strong("nothing is wrong", "good"))
    return lines


def _database_lines(document: Mapping[str, Any]) -> list[str]:
    database = document["database"]
    if database is None:
        return []
    lines = ["", "database", labelled("url", f"{database['url']} (from {database['source']})")]
    if database["version"] is not None:
        lines.append(labelled("server", f"Postgres {database['version']}"))
    if document["schema"] is not None:
        schema = document["schema"]
        lines.append(
            labelled("schema", f"{schema['revision'] or 'none'}, the latest is {schema['latest']}")
        )
    if document["clock"] is not None:
        ahead = document["clock"]["database_ahead_seconds"]
        lines.append(labelled("clock", f"{ahead:+.3f} s against this machine"))
    return lines


def _broker_lines(broker: Mapping[str, Any]) -> list[str]:
    lines = [labelled("url", f"{broker['url']} (from {broker['source']})")]
    if broker["queues"] is None:
        return lines
    waiting = ", ".join(f"{length} {name}" for name, length in broker["queues"].items() if length)
    return [*lines, labelled("wake-ups", waiting or "none waits")]


def _queue_lines(queue: Mapping[str, Any]) -> list[str]:
    depth = ", ".join(f"{count} {state}" for state, count in sorted(queue["states"].items()))
    lines = [labelled("open", depth or "nothing")]
    if queue["oldest_due_at"] is not None:
        late = queue["overdue_seconds"]
        said = f", {late:.0f} s ago" if late else ""
        lines.append(labelled("oldest due", f"{queue['oldest_due_at']}{said}"))
    lines.append(labelled("workers", claimed_text(queue["worker_seen_seconds"])))
    lines.append(labelled("left over", f"{queue['expired_leases']} leases are over"))
    lines.append(labelled("in doubt", queue["in_doubt"]))
    lines.append(labelled("parked", parked_text(queue["parked"])))
    holders = ", ".join(f"process {h['pid']} ({h['age_seconds']:.0f} s)" for h in queue["holders"])
    lines.append(labelled("recording", holders or "nobody at this moment"))
    return lines
