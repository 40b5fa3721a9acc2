"""Every statement is a document: named, explained, and planned through the index that it names."""

import ast
import importlib
import json
import pkgutil
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import takeback.ledger
import takeback_migrations
from takeback.ledger.planning import KEEP_TO_INDEX
from takeback.ledger.statement import STATEMENTS, Statement
from tests.database import Databases
from tests.ledger.scribe import Scribe, record, record_many, recorded

for module in pkgutil.iter_modules(takeback.ledger.__path__, "takeback.ledger."):
    importlib.import_module(module.name)

NAMES = sorted(STATEMENTS)
ROOM = Path(takeback.ledger.__path__[0])
ROWS = 3000

TENANT = "default"
ID = "01890a5d-ac96-774b-bcce-b302099a8057"
TOOLS = '{"send_customer_email": 1}'
WANTED = json.dumps(
    [{"number": 0, "tenant": TENANT, "scope": "tenant", "per_us": 1, "currency": "EUR"}]
)

AGENDA = {
    "tools": TOOLS,
    "everywhere": True,
    "lanes": [""],
    "priorities": [0],
    "lows": [0],
    "opens": [0],
}
LOCK_DUE = {
    "tools": TOOLS,
    "lanes": ["", "stripe"],
    "priorities": [0, 0],
    "lows": [0, 0],
    "rooms": [100, 100],
    "limit": 100,
}
WAITING = {
    "tools": TOOLS,
    "lanes": ["", ""],
    "priorities": [0, 1],
    "lows": [0, 0],
    "rooms": [100, 0],
    "opens": [0, 0],
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "act": {"tenant": TENANT, "intent": ID},
    "agenda": {**AGENDA, "tenant": TENANT},
    "agenda_of_all": {**AGENDA, "tenant": None},
    "append": {"intents": "{}", "events": "[{}]", "bodies": "[{}]"},
    "append_many": {"intents": "[{}, {}]", "events": "[{}]", "bodies": "[{}]", "count": 2},
    "attempts_spared": {"tenants": [TENANT], "ids": [ID]},
    "await_lanes": {"names": ["lane-7"]},
    "backlog_due": {"counted_max": 1000},
    "backlog_expired": {"counted_max": 1000},
    "backlog_stopped": {"counted_max": 1000},
    "barrier_holders": {},
    "bound_waiting": {"lock_ms": 1000, "statement_ms": 5000},
    "checked_later": {},
    "begin_many": {
        "tenants": [TENANT],
        "ids": [ID],
        "versions": [1],
        "lease_us": 30_000_000,
        "worker": '"w"',
    },
    "settle_many": {
        "tenants": [TENANT],
        "ids": [ID],
        "versions": [3],
        "salts": [bytes(32)],
        "bodies": ["{}"],
        "counts": [0],
    },
    "begun": {"tenant": TENANT, "tool": "a", "run": None, "limit": 1000},
    "bound": {"milliseconds": "30000"},
    "count_intents": {},
    "enter_limits": {"entries": "[{}]"},
    "freeze": {"tenant": None, "tool": None, "run": "r", "reason": "why", "by": "dana"},
    "freeze_turn": {},
    "same_freeze": {"tenant": None, "tool": None, "run": "r", "reason": "why", "by": "dana"},
    "freezes_in_force": {"limit": 1000},
    "frozen": {"tenant": TENANT, "tool": "a", "run": None},
    "count_faults": {"counted_max": 1000},
    "forget_faults": {"days": 30, "limit": 100},
    "latest_faults": {"limit": 3},
    "history": {"tenant": TENANT, "id": ID},
    "forget_previews": {"age_us": 1, "limit": 100},
    "keep_preview": {
        "tenant": TENANT,
        "token": "preview-7F3K9QDM",
        "tool": "a",
        "arguments": "{}",
        "affected": "{}",
        "affected_count": 0,
    },
    "read_preview": {"tenant": TENANT, "token": "preview-7F3K9QDM", "age_us": 1},
    "tokens_like": {"tenant": TENANT, "low": "preview-", "high": "preview-~", "limit": 10},
    "keep_fault": {
        "tenant": TENANT,
        "trace_id": "5d2d3aa4dd82c1b8",
        "tool": None,
        "run": None,
        "principal": None,
        "effect": "none",
        "kind": "builtins.KeyError",
        "details": "x",
    },
    "in_flight": {"names": ["lane-7"]},
    "isolation": {},
    "keep_plans": {"pid": 1},
    "keep_to_index": {},
    "lanes": {"counted_max": 1000, "lanes_max": 1000},
    "last_position": {},
    "limit_rows_foreseen": {"tenants": [TENANT], "ids": [ID]},
    "limit_standing": {"wanted": WANTED},
    "limit_usage": {"wanted": WANTED, "released_only": True, "without": [ID]},
    "list": {"tenant": TENANT, "state": "held", "tool": None, "age_us": None, "limit": 50},
    "list_run": {
        "tenant": TENANT,
        "run": "run-42",
        "state": "held",
        "tool": None,
        "age_us": None,
        "limit": 50,
    },
    "lock": {"tenant": TENANT, "ids": [ID]},
    "lock_due": {**LOCK_DUE, "tenant": TENANT},
    "lock_due_of_all": LOCK_DUE,
    "lock_doubtful": {"tools": TOOLS, "limit": 100, "tenant": None},
    "lock_expired": {"limit": 100, "tenant": TENANT},
    "lock_free": {"tenants": [TENANT], "ids": [ID]},
    "lanes_wanted": {"tenants": [TENANT], "ids": [ID]},
    "lock_lanes": {"names": ["lane-7"], "idle_ms": "10000"},
    "lock_lapsed": {"limit": 100, "tenant": None},
    "lock_overdue": {"tenant": None, "tool": "a", "run": None, "limit": 100},
    "lock_row": {"tenant": TENANT, "id": ID, "no_instant": 0},
    "lock_wanted": {"tools": TOOLS, "tenants": [TENANT], "ids": [ID], "tenant": None},
    "lock_scopes": {"locks": [-7]},
    "move_asks": {"tenants": [TENANT], "ids": [ID], "was_us": [None], "ask_us": [1]},
    "out_of_turn": {"tenants": [TENANT], "ids": [ID]},
    "lock_waiting": {"tools": TOOLS, "limit": 100, "tenant": None},
    "look_later": {"tenants": [TENANT], "ids": [ID], "instants": [1]},
    "look_now": {"limit": 100, "tenant": None},
    "others": {"tenants": [TENANT], "refs": ["a-1"]},
    "hold_others": {"tenant": TENANT, "refs": ["a-1"]},
    "amended": {"tenants": [TENANT], "refs": ["a-1"]},
    "successors": {"tenants": [TENANT], "refs": ["a-1"], "limit": 100},
    "open_intents": {"counted_max": 1000},
    "overdue": {"tenant": None, "tool": None, "run": None, "limit": 1000},
    "plant_row": {"tenant": TENANT, "id": ID, "row": "{}"},
    "read": {"tenant": TENANT, "id": ID},
    "read_by_key": {"tenant": TENANT, "key": "k1:a"},
    "read_by_ref": {"tenant": TENANT, "ref": "a-1"},
    "read_log": {"after": 1, "safe": 100, "limit": 100},
    "read_many": {"tenants": [TENANT], "ids": [ID]},
    "refs_of": {"tenants": [TENANT], "ids": [ID]},
    "remainder": {"tenant": None, "counted_max": 1000},
    "renew": {"tenants": [TENANT], "ids": [ID], "attempts": [1], "lease_us": 30_000_000},
    "record": {
        "tenant": TENANT,
        "key": "k1:a",
        "generation": 0,
        "key_lock": 1,
        "ref": "a-1",
        "tool": "a",
        "tool_version": 1,
        "effect": "remote",
        "run": None,
        "principal": "p",
        "state": "due",
        "window_us": 0,
        "not_before_us": None,
        "after": None,
        "restores": None,
        "repeat_of": None,
        "payload": "{}",
        "salt": bytes(32),
        "arguments": "{}",
        "on_behalf_of": None,
        "approval_us": None,
        "affected_salt": None,
        "affected": None,
        "former_keys": None,
        "former_locks": None,
        "schema": 3,
        "lane": "",
        "priority": 0,
        "ordering": None,
    },
    "record_many": {
        "tenant": TENANT,
        "genesis": bytes(32),
        "calls": json.dumps([{"ordinal": 0, "key": "k1:a", "state": "due"}]),
    },
    "read_doubts": {"tenants": [TENANT], "ids": [ID], "epochs": [0]},
    "read_lanes": {"names": ["lane-7"]},
    "register_lanes": {"lanes": json.dumps([{"name": "lane-7", "tokens": 1.0}])},
    "read_fault": {"tenant": TENANT, "trace_id": "5d2d3aa4dd82c1b8"},
    "read_faults": {"tenant": TENANT, "trace_ids": ["5d2d3aa4dd82c1b8-1"]},
    "read_twin": {"tenant": TENANT, "key": "k1:a", "former_keys": ["k1:b"]},
    "refs_like": {"tenant": TENANT, "low": "a-", "high": "a-~", "limit": 10},
    "revision": {},
    "server": {},
    "sign_of_workers": {"looked_at": 1000, "kinds": ["intent.claimed"]},
    "snapshots": {"tenants": [TENANT], "ids": [ID]},
    "thaw": {"tenant": None, "tool": "a", "run": None, "reason": "why", "by": "dana"},
    "try_orderings": {"locks": [-7]},
    "try_scopes": {"locks": [-7]},
    "waiting": {**WAITING, "tenant": TENANT},
    "waiting_of_all": WAITING,
    "walk_bodies": {
        "tenant": TENANT,
        "id": ID,
        "version": 1,
        "name": "",
        "last_tenant": TENANT,
        "last_id": ID,
        "limit": 100,
    },
    "walk_events": {
        "tenant": TENANT,
        "id": ID,
        "version": 1,
        "last_tenant": TENANT,
        "last_id": ID,
        "limit": 100,
        "no_instant": 0,
    },
    "walk_intents": {"tenant": TENANT, "id": ID, "limit": 100, "no_instant": 0},
    "write_lanes": {"lanes": "[{}]", "names": ["lane-7"]},
    "write_row": {"tenant": TENANT, "id": ID, "row": "{}"},
}

# What these read is bounded by their parameters, by a unique key, or by one intent's life.
BOUNDED = frozenset(
    {
        *(
            "append",
            "append_many",
            "begin_many",
            "settle_many",
            "lock",
            "lock_free",
            "lock_wanted",
            "keep_fault",
            "keep_preview",
            "lock_row",
            "move_asks",
            "look_later",
            "others",
            "hold_others",
            "amended",
            "successors",
            "read",
            "read_doubts",
            "read_fault",
            "read_faults",
            "read_preview",
            "read_by_ref",
            "read_many",
            "refs_of",
            "renew",
            "snapshots",
        ),
        *("plant_row", "write_row", "record", "record_many", "history"),
        # There are as many lanes as connectors, and as much under way as workers hold.
        *("attempts_spared", "await_lanes", "in_flight", "lanes_wanted", "lock_lanes"),
        "read_lanes",
        *("register_lanes", "write_lanes"),
        # A limit sums up what lies within its own time; a thaw ends the freezes of one scope.
        *("enter_limits", "limit_rows_foreseen", "limit_standing", "limit_usage", "thaw"),
    }
)
# What is said on a caller's connection, where plans may be kept: these are planned well from the
# start, when the planner knows nothing of the tables yet.
KEPT = (
    *("act", "append", "history", "list_run", "lock", "read", "read_by_key", "read_by_ref"),
    *("enter_limits", "limit_standing", "limit_usage"),
)
# What a worker says again and again, on connections of its own.
WORKED = (
    *("agenda", "append", "begin_many", "lock_doubtful", "lock_due"),
    *("lock_expired", "lock_free", "lock_lapsed", "lock_waiting", "lock_wanted", "settle_many"),
    "waiting",
)
# And of these, what concerns intents whose keys it has.
BY_KEY = ("begin_many", "lock_free", "lock_wanted", "renew", "settle_many", "snapshots")
# These read no table of ours but a sequence, the version, or settings.
ELSEWHERE = frozenset(
    {
        *("act", "barrier_holders", "bound", "last_position", "revision", "server"),
        *(
            "freeze",
            "freeze_turn",
            "frozen",
            "isolation",
            "lock_scopes",
            "try_scopes",
            "try_orderings",
        ),
        *("bound_waiting", "checked_later", "keep_plans", "keep_to_index"),
    }
)
WHOLE = frozenset({"count_intents"})


CLAIMS = """
INSERT INTO takeback.former_keys
SELECT 'default', 'k1:' || n, 0, gen_random_uuid() FROM generate_series(1, 3000) AS n
"""

BECOMES: tuple[dict[str, Any], ...] = (
    *({"becomes": "held"} if n % 3 else {"becomes": "due"} for n in range(299)),
    {"becomes": "awaiting_approval", "approval_cause": "row", "approval_us": 86_400_000_000},
)


COUNTED = """
INSERT INTO takeback.limit_entries (tenant, scope, intent_id, at, money, currency)
SELECT i.tenant, scope, i.id, i.recorded_at, 100, 'EUR'
FROM takeback.intents AS i CROSS JOIN unnest(ARRAY['tenant', 'run:' || i.run]) AS scope
"""
THAWED = """
INSERT INTO takeback.freezes (tool, reason, frozen_by, frozen_at, thawed_by, thawed_at)
SELECT 'a', 'why', 'dana', now(), CASE WHEN n > 2 THEN 'dana' END, CASE WHEN n > 2 THEN now() END
FROM generate_series(1, %(rows)s) AS n
"""


LANES = """
INSERT INTO takeback.connectors (name, tokens, refilled_at)
SELECT 'lane-' || n, 1, now() FROM generate_series(1, %(rows)s) AS n
"""

DOUBTED = """
UPDATE takeback.intents SET state = 'in_doubt', ask_at = takeback.now() + interval '1 hour'
WHERE id IN (SELECT id FROM takeback.intents WHERE state = 'due' ORDER BY id LIMIT 50)
"""


FAULTS = """
INSERT INTO takeback.faults (tenant, trace_id, at, effect, kind, details)
SELECT 'default', md5(n::text), takeback.now() - n * interval '1 hour', 'none', 'KeyError', 'x'
FROM generate_series(1, %s) AS n
"""


# A token a minute: a day has a thousand and a half of them.
PREVIEWS = """
INSERT INTO takeback.previews (tenant, token, tool, at, arguments, affected, affected_count)
SELECT 'default', 'preview-' || lpad(n::text, 8, '0'), 'a', now() - n * interval '1 minute',
       '{}', '{}', 0
FROM generate_series(1, %s) AS n
"""


@pytest.fixture(scope="module")
def young_url(databases: Databases) -> Iterator[str]:
    """A ledger that was migrated a moment ago, and that nobody has analysed."""
    with databases.empty() as url:
        takeback_migrations.upgrade(url)
        yield url


@pytest.fixture(scope="module")
def grown_url(databases: Databases) -> Iterator[str]:
    """A ledger with some thousand intents of one tenant, and the planner knows."""
    with databases.empty() as url:
        takeback_migrations.upgrade(url)
        scribe = Scribe(random.Random(7))
        with psycopg.connect(url) as tx:
            for start in range(0, ROWS, 1000):
                batch = [
                    scribe.entry(run=f"run-{n // 10}", **BECOMES[n % len(BECOMES)])
                    for n in range(start, start + 1000)
                ]
                assert len(record_many(tx, batch)) == 1000
            tx.execute(CLAIMS)
            tx.execute(COUNTED)
            tx.execute(THAWED, {"rows": ROWS})
            tx.execute(LANES, {"rows": ROWS})
            tx.execute(DOUBTED)
        with psycopg.connect(url) as tx:
            tx.execute(FAULTS, [ROWS])
            tx.execute(PREVIEWS, [ROWS])
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("VACUUM ANALYZE")
        yield url


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def plan_of(
    url: str, statement: Statement, mode: str, *, to_index: bool = False
) -> list[dict[str, Any]]:
    """The plan of a prepared statement, made for these parameters or for any."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement.sql)))
    assert set(names) == EXAMPLES[statement.name].keys(), statement.name
    text = re.sub(r"%\((\w+)\)s", lambda m: f"${names.index(m.group(1)) + 1}", statement.sql)
    with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as tx:
        tx.execute(f"SET LOCAL plan_cache_mode = {mode}")
        if to_index:
            tx.execute(KEEP_TO_INDEX.sql.encode())
        tx.execute(f"PREPARE one AS {text.replace('%%', '%')}".encode())
        values = [EXAMPLES[statement.name][name] for name in names]
        called = f"one({', '.join(['%s'] * len(names))})" if names else "one"
        row = tx.execute(f"EXPLAIN (FORMAT JSON) EXECUTE {called}".encode(), values).fetchone()
        tx.rollback()
    assert row is not None
    return list(nodes(row[0][0]["Plan"]))


MODES = ("force_custom_plan", "force_generic_plan")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_each_statement_is_planned_through_the_index_that_it_names(
    grown_url: str, name: str, mode: str
):
    check_plan(plan_of(grown_url, STATEMENTS[name], mode), STATEMENTS[name])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [*KEPT, "record", "record_many"])
def test_a_plan_that_is_kept_from_the_first_day_is_the_right_one(
    young_url: str, name: str, mode: str
):
    check_plan(plan_of(young_url, STATEMENTS[name], mode), STATEMENTS[name])


@pytest.mark.parametrize("name", WORKED)
def test_what_a_worker_says_is_planned_along_indexes_from_the_first_day(young_url: str, name: str):
    """A worker keeps the plan that it makes when the ledger is empty, however much comes in."""
    plan = plan_of(young_url, STATEMENTS[name], "force_generic_plan", to_index=True)
    check_plan(plan, STATEMENTS[name])


@pytest.mark.parametrize("url", ["young_url", "grown_url"])
@pytest.mark.parametrize("name", BY_KEY)
def test_what_a_worker_knows_by_its_key_is_looked_up_by_it_however_many_there_are(
    request: pytest.FixtureRequest, url: str, name: str
):
    """Neither all intents, or all of the log, are gone through in order, nor for each all that are
    due or begun.
    """
    plan = plan_of(
        request.getfixturevalue(url), STATEMENTS[name], "force_generic_plan", to_index=True
    )
    found = [
        (node["Index Name"], node.get("Index Cond", "all of it"))
        for node in plan
        if node.get("Relation Name") in ("intents", "events") and "Index Name" in node
    ]
    assert found
    assert [one for one in found if "id = " not in one[1] and "ordering = " not in one[1]] == []


def check_plan(plan: list[dict[str, Any]], statement: Statement) -> None:
    scanned = {node["Relation Name"] for node in plan if node["Node Type"] == "Seq Scan"}
    indexes = {node["Index Name"] for node in plan if "Index Name" in node}
    indexes |= {one for node in plan for one in node.get("Conflict Arbiter Indexes", ())}
    if statement.name in ELSEWHERE | WHOLE:
        assert statement.index is None
        return
    assert scanned == set()
    if statement.name != "record":  # a function: another test counts what it looks through
        assert statement.index in indexes, indexes


@pytest.mark.parametrize(
    "name",
    [
        *("lock_due", "lock_expired", "lock_lapsed", "lock_doubtful"),
        *("read_log", "list", "list_run", "waiting", "lock_due_of_all", "waiting_of_all"),
        *("backlog_expired", "lanes"),
    ],
)
def test_a_batch_is_read_off_its_index_without_sorting_what_it_leaves(grown_url: str, name: str):
    # For so few rows a bitmap and a sort would do; what counts is that none is needed.
    plan = plan_of(grown_url, STATEMENTS[name], "force_generic_plan", to_index=True)
    assert not {"Sort", "Incremental Sort"} & {node["Node Type"] for node in plan}


@pytest.mark.parametrize("url", ["young_url", "grown_url"])
def test_recording_finds_twins_through_the_key_and_reads_no_table_whole(
    request: pytest.FixtureRequest, url: str
):
    scribe = Scribe(random.Random(url))
    with psycopg.connect(request.getfixturevalue(url)) as tx:
        before = scans(tx)
        batch = [scribe.entry() for _ in range(10)]
        for entry in batch:
            recorded(tx, entry)
            assert record(tx, entry).answer == "found"
        after = scans(tx)
        tx.rollback()
    looked = {name: after[name] - before[name] for name in after}
    # Each insert looks into every unique index for what it would collide with. Who has claimed the
    # key is looked up only where anybody ever claimed one.
    claims = {"former_keys_pkey": 10} if url == "grown_url" else {}
    assert {name: count for name, count in looked.items() if count} == claims | {
        "intents_key_is_recorded_once": 10 + 10 + 10,
        "intents_pkey": 10,
        "intents_ref_is_unique": 10,
        "freezes_in_force": 20,
    }


@pytest.mark.parametrize("url", ["young_url", "grown_url"])
def test_recording_with_former_keys_reads_no_table_whole(request: pytest.FixtureRequest, url: str):
    scribe = Scribe(random.Random(f"former {url}"))
    with psycopg.connect(request.getfixturevalue(url)) as tx:
        if not tx.execute("SELECT 1 FROM takeback.former_keys LIMIT 1").fetchone():
            tx.execute(CLAIMS)
        before = scans(tx)
        for _ in range(10):
            former, today = scribe.two_recipes()
            recorded(tx, today)
            assert record(tx, former).answer == "found"
            former, today = scribe.two_recipes()
            recorded(tx, former)
            assert record(tx, today).answer == "former"
        assert record_many(tx, [scribe.two_recipes()[0], scribe.entry()])
        after = scans(tx)
        tx.rollback()
    looked = {name: after[name] - before[name] for name in after}
    whole = ("intents", "events", "bodies", "former_keys")
    assert {name: looked[name] for name in whole} == dict.fromkeys(whole, 0)
    assert looked["former_keys_pkey"] >= 40


def scans(tx: psycopg.Connection[Any]) -> dict[str, int]:
    """How often this transaction has scanned each table whole, and each index."""
    rows = tx.execute(
        """
        SELECT relname, pg_stat_get_xact_numscans(pg_class.oid) FROM pg_class
        WHERE relnamespace = 'takeback'::regnamespace AND relkind IN ('r', 'i')
        """
    ).fetchall()
    return dict(rows)


def test_there_is_an_example_of_each_statement():
    assert EXAMPLES.keys() == STATEMENTS.keys()


def test_a_name_given_twice_is_refused():
    statement = STATEMENTS["read"]
    with pytest.raises(AssertionError, match="'read'"):
        Statement(
            name="read",
            sentence=statement.sentence,
            index=None,
            lock="none",
            text=statement.text,
        )
    assert STATEMENTS["read"] is statement


@pytest.mark.parametrize("name", NAMES)
def test_each_statement_says_in_a_sentence_what_it_does_and_what_it_locks(name: str):
    statement = STATEMENTS[name]
    assert statement.sentence[0].isupper() and statement.sentence.endswith(".")
    assert statement.lock
    writes = re.search(
        r"FOR UPDATE|FOR SHARE|INSERT INTO|UPDATE takeback|advisory|record\(", statement.sql
    )
    reads_locks = name == "barrier_holders"
    assert (statement.lock == "none") == (writes is None or reads_locks), statement.lock


@pytest.mark.parametrize("name", NAMES)
def test_no_statement_reads_more_rows_than_it_is_told(name: str):
    sql = STATEMENTS[name].sql
    bounded = name in BOUNDED | ELSEWHERE | WHOLE
    assert bounded or "LIMIT" in sql


def test_every_text_of_the_room_belongs_to_a_statement():
    strangers = []
    for path in sorted(ROOM.glob("*.py")):
        if path.name != "table.py":  # its texts are conditions of indexes and defaults
            strangers += [f"{path.name}:{line}" for line in loose_texts(path.read_text())]
    assert strangers == []


def test_a_text_outside_of_a_statement_is_found():
    assert loose_texts("rows = tx.execute(text('SELECT 1'))") == [1]
    assert loose_texts("A = Statement(name='a', text=text('SELECT 1'))") == []
    assert loose_texts("def f():\n    return Statement(name='a', text=text('SELECT 1'))") == [2]


def loose_texts(source: str) -> list[int]:
    """The lines where SQL is written that no test explains."""
    tree = ast.parse(source)
    listed = {
        keyword.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if isinstance(node.value.func, ast.Name) and node.value.func.id == "Statement"
        for keyword in node.value.keywords
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "text"
        and node not in listed
    ]
