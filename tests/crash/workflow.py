"""What is played: each workflow once through, and then once for every point at which it may die."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from takeback.client.batching import Call
from takeback.declare import PER_TENANT, REFUSE, Limit
from takeback.dispatch.executor import Ended, Executor
from takeback.dispatch.outcome import of_answer
from takeback.dispatch.pace import Pace
from takeback.dispatch.reaper import Reaper
from takeback.dispatch.settler import Settler
from takeback.dispatch.work import Work, identity
from takeback.ledger.database import sqlalchemy_url
from takeback.model.errors import NotDispatched, Rejected
from takeback.testing.crash import Stage
from tests.crash import doubt, lane
from tests.crash.site import REPEATED, Site, expect
from tests.dispatch.office import Office


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """``prepare`` happens before, in a process that lives. ``play`` may die, and is played again by
    whoever comes after: the agent that retries its call, the worker that takes over. ``check``
    says what is wrong in the end, beside what is never right.
    """

    play: Callable[[Site, Office, Stage | None], object]
    check: Callable[[Site], Sequence[str]]
    prepare: Callable[[Site, Office], object] = lambda site, office: None
    atomic: bool = False
    """Whether the caller's row and the intent are there together, or neither is."""


def _sent(tool: str, *, count: int = 1) -> Callable[[Site], list[str]]:
    """All are recorded and carried out, or a person has to find out, where nobody else can."""
    ends = ("succeeded",) if tool in REPEATED else ("succeeded", "parked")
    return lambda site: expect(site, tool=tool, count=count, states=ends)


BUSINESS = "INSERT INTO public.cases (name) VALUES (%s) ON CONFLICT DO NOTHING"


def _connect(site: Site, stage: Stage | None) -> psycopg.Connection[Any]:
    return psycopg.connect(site.url) if stage is None else stage.connect(site.url)


def record_in_callers_connection(site: Site, office: Office, stage: Stage | None) -> None:
    with _connect(site, stage) as connection:
        connection.execute(BUSINESS, [site.to])
        office.call(connection, "hold_letter", {"to": site.to})


def record_in_callers_session(site: Site, office: Office, stage: Stage | None) -> None:
    engine = create_engine(sqlalchemy_url(site.url), use_native_hstore=False)
    if stage is not None:
        stage.watch(engine)
    with Session(engine) as session, session.begin():
        session.execute(
            text("INSERT INTO public.cases (name) VALUES (:to) ON CONFLICT DO NOTHING"),
            {"to": site.to},
        )
        office.call(session, "hold_letter", {"to": site.to})
    engine.dispose()


def record_in_own_transaction(site: Site, office: Office, stage: Stage | None) -> None:
    office.call(None, "send_letter", {"to": site.to})


def record_many(site: Site, office: Office, stage: Stage | None) -> None:
    tools = ("send_letter", "pay", "ship", "send_letter")
    office.call_many(None, [Call(tool=tool, arguments={"to": site.to}) for tool in tools])


def record_many_in_callers_connection(site: Site, office: Office, stage: Stage | None) -> None:
    with _connect(site, stage) as connection:
        connection.execute(BUSINESS, [site.to])
        calls = [Call(tool=tool, arguments={"to": site.to}) for tool in ("send_letter", "pay")]
        office.call_many(connection, calls)


def call_local(site: Site, office: Office, stage: Stage | None) -> None:
    office.call(None, "file_case", {"to": site.to})


def call_local_in_callers_connection(site: Site, office: Office, stage: Stage | None) -> None:
    with _connect(site, stage) as connection:
        office.call(connection, "file_case", {"to": site.to})


def carry_out(site: Site, office: Office, stage: Stage | None) -> None:
    site.work(office)


def carry_out_by_ids(site: Site, office: Office, stage: Stage | None) -> None:
    """As one who was woken for two intents does; then a worker carries out what is left."""
    worker = office.worker_of("w1", sleep=site.clock.advance, pace=Pace(concurrency=1))
    claimed = worker._dispatcher.claim(site.kept["wanted"])
    worker._crew.take_on(claimed.works, worker._monotonic() + 30)
    worker.run(drain=True)


def call_and_carry_out(site: Site, office: Office, stage: Stage | None) -> None:
    office.call(None, "send_letter", {"to": site.to})
    site.work(office)


def carry_out_until_deferred_is_due(site: Site, office: Office, stage: Stage | None) -> None:
    site.work(office)
    site.clock.advance(600)
    site.work(office)


def stop_in_the_middle(site: Site, office: Office, stage: Stage | None) -> None:
    """The worker is told to stop while its first of three attempts runs."""
    before = len(site.world.calls)
    worker = office.worker_of(
        "w1",
        sleep=site.clock.advance,
        stopping=lambda: len(site.world.calls) > before,
        pace=Pace(concurrency=1),
    )
    worker.run(drain=True)


def outlast_a_lease(site: Site, office: Office, stage: Stage | None) -> None:
    """One attempt that takes two leases; its worker renews them, in time and in one order."""
    worker = office.worker_of(
        "w1",
        sleep=site.clock.advance,
        monotonic=lambda: site.clock.ahead,
        pace=Pace(concurrency=1),
    )

    def haul(called: Any) -> Any:
        for _ in range(5):
            site.clock.advance(12)
            worker._crew.renewer.run_once()
        return site.world.arrive(called)

    site.world.on["haul"] = haul
    worker.run(drain=True)


def answer_late(site: Site, office: Office, stage: Stage | None) -> None:
    """The worker wakes up, and says what it has done."""
    Settler(office.context).settle([Ended(work=site.kept["work"], outcome=of_answer("done"))])


def restore(site: Site, office: Office, stage: Stage | None) -> None:
    office.restore(None, site.kept["ref"])


def restore_in_callers_connection(site: Site, office: Office, stage: Stage | None) -> None:
    with _connect(site, stage) as connection:
        office.restore(connection, site.kept["ref"])


def compensate(site: Site, office: Office, stage: Stage | None) -> None:
    office.restore(None, site.kept["ref"])
    site.work(office)


def freeze_and_thaw(site: Site, office: Office, stage: Stage | None) -> None:
    """A person stops the tenant; nothing is carried out until they let it go on."""
    why: dict[str, Any] = {"tenant": site.tenant, "reason": "a look", "principal": "dana"}
    office.freeze(**why)
    before = len(site.world.calls)
    site.work(office)
    assert len(site.world.calls) == before, "something has begun while frozen"
    office.thaw(**why)
    site.clock.advance(5)
    site.work(office)


def carry_out_under_a_limit(site: Site, office: Office, stage: Stage | None) -> None:
    """One of two may be released."""
    limit = Limit(count=1, scope=PER_TENANT, over=REFUSE)
    office.context = replace(office.context, limits=(limit,))
    site.work(office)


def ask(site: Site, office: Office, stage: Stage | None) -> None:
    office.call(None, "grant", {"to": site.to})
    site.work(office)


def approve(site: Site, office: Office, stage: Stage | None) -> None:
    office.approve(None, site.kept["ref"], principal="robin")


def approve_in_callers_connection(site: Site, office: Office, stage: Stage | None) -> None:
    with _connect(site, stage) as connection:
        office.approve(connection, site.kept["ref"], principal="robin")


def deny(site: Site, office: Office, stage: Stage | None) -> None:
    office.deny(None, site.kept["ref"], principal="robin", reason="not this one")


def _record(*tools: str) -> Callable[[Site, Office], None]:
    def prepare(site: Site, office: Office) -> None:
        for tool in tools:
            site.kept["ref"] = office.call(None, tool, {"to": site.to}).ref

    return prepare


def _carried_out(tool: str) -> Callable[[Site, Office], None]:
    def prepare(site: Site, office: Office) -> None:
        site.kept["ref"] = office.call(None, tool, {"to": site.to}).ref
        site.work(office)

    return prepare


def _over(site: Site, office: Office) -> None:
    """A request that nobody has decided in time."""
    _record("grant")(site, office)
    site.clock.advance(24 * 3600)


def _approved(site: Site, office: Office) -> None:
    _record("open_case")(site, office)
    office.approve(None, site.kept["ref"], principal="robin")


def _three_payments(site: Site, office: Office) -> None:
    for note in "abc":
        office.call(None, "pay", {"to": f"{site.to}-{note}"})


def _cancelled(site: Site, office: Office) -> None:
    ref = office.call(None, "hold_letter", {"to": site.to}).ref
    site.kept["ref"] = office.restore(None, ref or "").ref


def _deferred_once(site: Site, office: Office) -> None:
    def down_at_first(called: Any) -> Any:
        if called.number == 1:
            raise NotDispatched("refused")
        return site.world.arrive(called)

    site.world.on["send_letter"] = down_at_first
    office.call(None, "send_letter", {"to": site.to})


def _wanted(site: Site, office: Office) -> None:
    """Two are due, and somebody is woken for them."""
    calls = [Call(tool=tool, arguments={"to": site.to}) for tool in ("send_letter", "pay")]
    answers = office.call_many(None, calls)
    site.kept["wanted"] = [identity(office.show(one.ref or "").entry.intent) for one in answers]


def _refused(site: Site, office: Office) -> None:
    def refuse(called: Any) -> Any:
        raise Rejected("no such address")

    site.world.on["send_letter"] = refuse
    office.call(None, "send_letter", {"to": site.to})


def _left_behind(site: Site, office: Office) -> None:
    """One is claimed and one executing, both by a worker that is no more."""
    office.call_many(
        None, [Call(tool=tool, arguments={"to": site.to}) for tool in ("send_letter", "pay")]
    )
    dispatcher = office.worker_of("gone")._dispatcher
    dispatcher.run_once(10)
    site.clock.advance(31)


def _slept_through_its_lease(site: Site, office: Office) -> None:
    """A worker has called the provider, and then nothing was heard of it for too long."""
    office.call(None, "send_letter", {"to": site.to})
    (work,) = office.worker_of("slow")._dispatcher.run_once(1).works
    executor = Executor(context=office.context, pace=Pace(), monotonic=lambda: 0.0)
    begun = executor.begin(work, 30.0)
    assert isinstance(begun, Work)
    executor.perform(begun)
    site.kept["work"] = begun
    site.clock.advance(31)
    Reaper(office.context).run_once()


def _unreadable(site: Site, office: Office) -> None:
    """Of two, the arguments of one are erased."""
    ref = office.call(None, "pay", {"to": site.to}).ref
    office.call(None, "send_letter", {"to": site.to})
    with psycopg.connect(site.url) as connection:
        connection.execute(
            "DELETE FROM takeback.bodies WHERE intent_id = %s",
            [office.show(ref or "").entry.intent.id],
        )


def _parked(site: Site) -> list[str]:
    return [*expect(site, tool="pay", count=1, states=("parked",)), *_sent("send_letter")(site)]


def _recorded_once(site: Site) -> list[str]:
    return expect(site, tool="hold_letter", count=1, states=("succeeded", "parked"))


def _many(site: Site) -> list[str]:
    return [*_sent("send_letter")(site), *_sent("pay")(site)]


def _filed(site: Site) -> list[str]:
    problems = expect(site, tool="file_case", count=1, states=("succeeded",))
    return problems if site.has_business_row() else [*problems, "the row is not there"]


def _one_of_two(site: Site) -> list[str]:
    states = sorted(row.state for row in site.rows())
    expected = (["failed", "succeeded"], ["failed", "parked"])
    problems = [] if states in expected else [f"they are {states}"]
    sent = site.effects("send_letter") + site.effects("pay")
    return problems if sent <= 1 else [*problems, f"{sent} have left"]


def _opened(site: Site) -> list[str]:
    problems = expect(site, tool="open_case", count=1, states=("succeeded",))
    return problems if site.has_business_row() else [*problems, "the row is not there"]


def _not_granted(state: str) -> Callable[[Site], list[str]]:
    """Nothing has happened, and nobody was even called."""

    def check(site: Site) -> list[str]:
        problems = expect(site, tool="grant", count=1, states=(state,))
        return problems if site.calls("grant") == 0 else [*problems, "it was carried out"]

    return check


def _never_left(site: Site) -> list[str]:
    problems = expect(site, tool="hold_letter", count=1, states=("cancelled",))
    return problems if site.effects("hold_letter") == 0 else [*problems, "it left all the same"]


def _refused_for_good(site: Site) -> list[str]:
    problems = expect(site, tool="send_letter", count=1, states=("failed", "parked"))
    return problems if site.effects("send_letter") == 0 else [*problems, "it arrived"]


def _unfiled(site: Site) -> list[str]:
    problems = expect(site, tool="file_case", count=1, states=("restored",))
    return [*problems, "the row is still there"] if site.has_business_row() else problems


def _done_anew(site: Site) -> list[str]:
    states = sorted(row.state for row in site.rows() if row.tool == "hold_letter")
    expected = (["cancelled", "succeeded"], ["cancelled", "parked"])
    return [] if states in expected else [f"hold_letter is {states}"]


def _compensated(tool: str) -> Callable[[Site], list[str]]:
    """It is taken back, or whether it is, a person has to find out, where nobody else can."""
    ends = ("restored",) if tool in REPEATED else ("restored", "in_doubt")
    return lambda site: expect(site, tool=tool, count=1, states=ends)


def amend(site: Site, office: Office, stage: Stage | None) -> None:
    office.amend(None, site.kept["ref"], {"note": "again"})


def _amended(site: Site) -> list[str]:
    """The first is taken back and one stands in its place, never two."""
    states = sorted(row.state for row in site.rows() if row.tool == "hold_letter")
    agreed = (["cancelled", "held"], ["cancelled", "succeeded"], ["cancelled", "parked"])
    return [] if states in agreed else [f"letters are {states}"]


def _one_after_another(site: Site, office: Office) -> None:
    first = office.call(None, "send_letter", {"to": site.to}).ref
    assert first is not None
    office.call(None, "ship", {"to": site.to}, after=[first])
    arrived = len(site.world.effects)
    office.worker_of("w0", stopping=lambda: len(site.world.effects) > arrived).run()
    # What has waited for long is looked at seldom: no second more or less makes one look more.
    site.clock.advance(600)


def _in_order(site: Site) -> list[str]:
    """The second never without the first; while that is in doubt, it waits."""
    states = {row.tool: row.state for row in site.rows()}
    over = ("succeeded", "in_doubt", "parked")
    expected = over if states["send_letter"] == "succeeded" else ("waiting",)
    return expect(site, tool="send_letter", count=1, states=over) + expect(
        site, tool="ship", count=1, states=expected
    )


WORKFLOWS: dict[str, Workflow] = {
    "record in the caller's connection": Workflow(
        play=record_in_callers_connection, check=_recorded_once, atomic=True
    ),
    "record in the caller's session": Workflow(
        play=record_in_callers_session, check=_recorded_once, atomic=True
    ),
    "record in a transaction of its own": Workflow(
        play=record_in_own_transaction, check=_sent("send_letter")
    ),
    "record many": Workflow(play=record_many, check=_many),
    "record many in the caller's connection": Workflow(
        play=record_many_in_callers_connection, check=_many, atomic=True
    ),
    "call a Local tool": Workflow(play=call_local, check=_filed, atomic=True),
    "call a Local tool in the caller's connection": Workflow(
        play=call_local_in_callers_connection, check=_filed, atomic=True
    ),
    "carry out, blind": Workflow(
        play=carry_out, check=_sent("send_letter"), prepare=_record("send_letter")
    ),
    "carry out, keyed": Workflow(play=carry_out, check=_sent("pay"), prepare=_record("pay")),
    "carry out by ids": Workflow(play=carry_out_by_ids, check=_many, prepare=_wanted),
    "call and carry out": Workflow(play=call_and_carry_out, check=_sent("send_letter")),
    "outlast a lease": Workflow(play=outlast_a_lease, check=_sent("haul"), prepare=_record("haul")),
    "defer and try again": Workflow(
        play=carry_out_until_deferred_is_due, check=_sent("send_letter"), prepare=_deferred_once
    ),
    "reject": Workflow(play=carry_out, check=_refused_for_good, prepare=_refused),
    "stop and hand back": Workflow(
        play=stop_in_the_middle, check=_sent("pay", count=3), prepare=_three_payments
    ),
    "park what can't be run": Workflow(play=carry_out, check=_parked, prepare=_unreadable),
    "answer late": Workflow(
        play=answer_late, check=_sent("send_letter"), prepare=_slept_through_its_lease
    ),
    "take over": Workflow(play=carry_out, check=_many, prepare=_left_behind),
    "ask for approval": Workflow(play=ask, check=_not_granted("awaiting_approval")),
    "amend": Workflow(play=amend, check=_amended, prepare=_record("hold_letter")),
    "wait for another": Workflow(play=carry_out, check=_in_order, prepare=_one_after_another),
    "approve": Workflow(play=approve, check=_sent("grant"), prepare=_record("grant")),
    "approve in the caller's connection": Workflow(
        play=approve_in_callers_connection, check=_sent("grant"), prepare=_record("grant")
    ),
    "deny": Workflow(play=deny, check=_not_granted("denied"), prepare=_record("grant")),
    "expire an approval": Workflow(play=carry_out, check=_not_granted("expired"), prepare=_over),
    "carry out an approved Local": Workflow(play=carry_out, check=_opened, prepare=_approved),
    "restore what is held": Workflow(
        play=restore, check=_never_left, prepare=_record("hold_letter")
    ),
    "restore what is held, in the caller's connection": Workflow(
        play=restore_in_callers_connection, check=_never_left, prepare=_record("hold_letter")
    ),
    "restore a Local effect": Workflow(play=restore, check=_unfiled, prepare=_record("file_case")),
    "restore a restore": Workflow(play=restore, check=_done_anew, prepare=_cancelled),
    "compensate, keyed": Workflow(
        play=compensate, check=_compensated("pay"), prepare=_carried_out("pay")
    ),
    "freeze and thaw": Workflow(
        play=freeze_and_thaw, check=_many, prepare=_record("send_letter", "pay")
    ),
    "carry out at a rate": Workflow(
        play=lane.carry_out_at_a_rate,
        check=lane.sent_in_any_order(1),
        prepare=lane.telexes(1),
    ),
    "probe after an outage": Workflow(
        play=lane.probe,
        check=lane.sent_in_any_order(1),
        prepare=lane.paused,
    ),
    "carry out in turn": Workflow(
        play=lane.carry_out_in_turn,
        check=lane.sent(2),
        prepare=lane.telexes(2, in_turn=True),
    ),
    "carry out under a limit": Workflow(
        play=carry_out_under_a_limit, check=_one_of_two, prepare=_record("send_letter", "pay")
    ),
    "compensate, blind": Workflow(
        play=compensate, check=_compensated("ship"), prepare=_carried_out("ship")
    ),
    "find what became of it": Workflow(
        play=carry_out, check=_sent("wire"), prepare=doubt.lost("wire", arrived=True)
    ),
    "find that it never arrived": Workflow(
        play=carry_out, check=_sent("wire"), prepare=doubt.lost("wire", arrived=False)
    ),
    "retry under the provider's key": Workflow(
        play=carry_out, check=_sent("pay"), prepare=doubt.lost("pay", arrived=True)
    ),
    "park what nobody can find out": Workflow(
        play=carry_out, check=doubt.parked, prepare=doubt.lost("send_letter", arrived=True)
    ),
    "retry by a person": Workflow(
        play=doubt.retry, check=_sent("send_letter"), prepare=doubt.not_begun
    ),
    "stop by a person": Workflow(play=doubt.stop, check=doubt.parked, prepare=doubt.retried),
    "resolve by a person": Workflow(
        play=doubt.resolve,
        check=doubt.resolved,
        prepare=doubt.lost("send_letter", arrived=True, parked=True),
    ),
    "resolve a restore by a person": Workflow(
        play=doubt.resolve, check=doubt.restored, prepare=doubt.lost_restore
    ),
}
