"""``doctor``: what is wrong is found, whatever else is."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.terminal import Terminal, call

NAMES = [
    "database_url",
    "app",
    "broker_url",
    "tenant",
    "log",
    "key_secret",
    "lease_seconds",
    "reconcile_seconds",
    "memory_mb",
    "metrics",
    "data_directory",
]


def settings_of(document: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one for one in document["settings"]}


def test_nothing_is_wrong_with_a_sound_set_up(kiosk: Terminal, database_url: str):
    said = kiosk("doctor", "--json")
    document = said.document
    assert (said.exit, document["problems"], document["status"]) == (0, [], "done")
    assert document["database"]["source"] == "TAKEBACK_DATABASE_URL"
    assert document["database"]["version"]
    assert document["schema"]["revision"] == document["schema"]["latest"]
    assert abs(document["clock"]["database_ahead_seconds"]) < 60
    assert document["queue"]["states"] == {}
    assert [one["tool"] for one in document["app"]["tools"]][:2] == ["paint", "post"]
    people = kiosk("doctor")
    assert people.exit == 0
    assert people.out.splitlines()[-1] == "nothing is wrong"


def test_every_setting_is_there_with_its_value_and_where_it_came_from(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "pyproject.toml").write_text('[tool.takeback]\ntenant = "acme"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TAKEBACK_APP")
    settings = settings_of(kiosk("doctor", "--json").document)
    assert list(settings) == NAMES
    assert settings["tenant"] == {
        "name": "tenant",
        "value": "acme",
        "source": "pyproject.toml",
        "problem": None,
    }
    assert settings["log"]["source"] == "default"


def test_an_embedded_database_is_called_so_with_and_without_an_app(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    no_folder = tmp_path / "file"
    no_folder.write_text("")
    monkeypatch.setenv("TAKEBACK_DATA_DIRECTORY", str(no_folder))
    for app in ([], ["--app", "kiosk:app"]):
        said = terminal(*app, "doctor", "--json")
        assert (said.exit, said.document["database"]["source"]) == (4, "embedded")


def test_the_app_of_the_command_line_is_said_to_come_from_there(kiosk: Terminal):
    document = kiosk("--app", "kiosk:app", "doctor", "--json").document
    assert settings_of(document)["app"]["source"] == "--app"


def test_passwords_and_keys_are_shown_only_when_asked_for(
    kiosk: Terminal, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    scheme, _, rest = database_url.partition("://")
    address = rest.rpartition("@")[2]
    with psycopg.connect(database_url) as connection:
        user = connection.info.user
    url = f"{scheme}://{user}:s3cret@{address}"
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", url)
    monkeypatch.setenv("TAKEBACK_KEY_SECRET", "a key of some length")
    for said in (kiosk("doctor", "--json"), kiosk("doctor")):
        assert "s3cret" not in said.out + said.err
        assert "a key of some length" not in said.out + said.err
    shown = kiosk("doctor", "--json", "--show-secrets").document
    assert shown["database"]["url"] == url
    assert settings_of(shown)["key_secret"]["value"] == "a key of some length"


def test_every_setting_that_is_wrong_is_named_and_the_rest_is_looked_at(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_LOG", "xml")
    monkeypatch.setenv("TAKEBACK_BROKER_URL", "http://u:s3cret@host")
    said = kiosk("doctor", "--json")
    assert (said.exit, said.code) == (1, "failed_check")
    wrong = [one["name"] for one in said.document["settings"] if one["problem"]]
    assert wrong == ["broker_url", "log"]
    assert said.document["database"]["version"]
    assert "s3cret" not in said.out
    assert kiosk("list", "--json").exit == 2


def test_an_app_that_can_not_be_loaded_does_not_hide_the_database(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_APP", "kiosk:nothing")
    said = kiosk("doctor", "--json")
    assert said.exit == 1
    assert "there is kiosk:app" in said.document["app"]["problem"]
    assert said.document["database"]["version"]


def test_a_database_that_is_away_is_said_with_the_reason_and_ends_with_four(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", "postgresql://me:s3cret@127.0.0.1:1/shop")
    said = kiosk("doctor", "--json")
    assert (said.exit, said.code) == (4, "database_unavailable")
    assert "Connection refused" in said.document["database"]["problem"]
    assert said.document["database"]["url"] == "postgresql://me:***@127.0.0.1:1/shop"
    people = kiosk("doctor")
    assert people.exit == 4
    assert "Connection refused" in people.out
    assert "s3cret" not in people.out + people.err + said.out


@pytest.mark.parametrize(
    "url", ["mysql://me:s3cret@h/x", "me:s3cret@h", "postgresql://me:s3cret@h:port/x"]
)
def test_a_url_of_nothing_is_wrong_and_its_password_stays_where_it_is(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch, url: str
):
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", url)
    said = kiosk("doctor", "--json")
    assert (said.exit, said.code) == (1, "failed_check")
    assert "s3cret" not in said.out + said.err


def test_a_database_without_a_ledger_is_wrong_and_migrating_is_the_next_step(
    terminal: Terminal, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", empty_database_url)
    said = terminal("doctor", "--json")
    assert (said.exit, said.document["schema"]["revision"]) == (1, None)
    assert "takeback migrate" in said.document["problems"][0]


def test_the_faults_of_a_day_are_counted_and_are_a_note(kiosk: Terminal):
    assert kiosk("doctor", "--json").document["faults_last_day"] == 0
    kiosk(*call("jam", words="now"))
    said = kiosk("doctor", "--json")
    assert said.exit == 0
    assert said.document["faults_last_day"] == 1
    (fault,) = said.document["latest_faults"]
    assert (fault["tool"], fault["tenant"]) == ("jam", "default")
    (note,) = [one for one in said.document["notes"] if "faults in the last day" in one]
    assert fault["trace_id"] in note and fault["kind"] in note
    shown = kiosk("show", fault["trace_id"])
    assert shown.exit == 0 and fault["kind"] in shown.out


def test_the_queue_is_counted_by_state_with_its_oldest(kiosk: Terminal):
    for to in ("dana", "olu"):
        kiosk.ref(*call("post", to=to))
    kiosk.ref(*call("give", amount=500))
    kiosk.ref(*call("paint", wall="north", colour="green"))
    queue = kiosk("doctor", "--json").document["queue"]
    assert queue["states"] == {"awaiting_approval": 1, "held": 2}
    assert queue["oldest_due_at"]
    assert queue["overdue_seconds"] is None
    assert "1 awaiting_approval, 2 held" in kiosk("doctor").out


def test_what_is_due_for_long_has_no_worker_and_that_is_wrong(kiosk: Terminal, database_url: str):
    kiosk.ref(*call("ring", bell="a"))
    assert kiosk("doctor").exit == 0
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE takeback.intents SET due_at = due_at - interval '2 minutes'")
    said = kiosk("doctor", "--json")
    assert said.exit == 1
    assert "takeback worker" in said.document["problems"][0]
    assert "dramatiq" not in said.document["problems"][0]
    assert said.document["queue"]["overdue_seconds"] > 100


def test_where_a_broker_is_set_the_workers_that_it_wakes_are_named(
    kiosk: Terminal, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_BROKER_URL", "redis://127.0.0.1:1/0")
    kiosk.ref(*call("ring", bell="a"))
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE takeback.intents SET due_at = due_at - interval '2 minutes'")
    problems = kiosk("doctor", "--json").document["problems"]
    (due,) = [one for one in problems if one.startswith("1 due")]
    assert "`takeback worker`, or `dramatiq takeback_workers.actors` beside a `takeback" in due
    kiosk("worker", "--drain")


def test_a_connector_that_nothing_keeps_works_and_is_not_called_open(kiosk: Terminal):
    """Of a breaker ``open`` means that it has tripped."""
    kiosk.ref(*call("ring", bell="a"))
    kiosk("worker", "--drain")
    for verb in (("doctor",), ("connectors", "list")):
        (line,) = [one for one in kiosk(*verb).out.splitlines() if one.startswith("  belfry")]
        assert line.split()[-1] == "works"


def test_a_connector_that_an_outage_pauses_says_why_nothing_leaves(
    kiosk: Terminal, database_url: str
):
    kiosk.ref(*call("ring", bell="a"))
    assert kiosk("doctor", "--json").document["connectors"] == []
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE takeback.intents SET due_at = due_at - interval '2 minutes'")
        connection.execute(
            "INSERT INTO takeback.connectors (name, tokens, refilled_at, failures, opened_at,"
            " paused_until, pause_us) VALUES ('belfry', 0, takeback.now(), 7,"
            " takeback.now(), takeback.now() + interval '1 hour', 10)"
        )
    said = kiosk("doctor", "--json")
    assert said.exit == 0
    (one,) = said.document["connectors"]
    assert (one["connector"], one["in_flight"], one["due"], one["failures"]) == ("belfry", 0, 1, 7)
    assert one["paused_until"] and not one["is_probing"] and 0 <= one["tokens"] <= 250
    (why,) = said.document["attention"]
    assert "7 attempts in a row were not answered; 1 due wait, a probe follows at" in why
    assert "`takeback connectors resume belfry`" in why
    assert said.document["queue"]["remainder"]["paused"]["count"] == 1
    assert kiosk("doctor").out.splitlines()[-2] == "nothing is broken, and 1 to see to:"
    (line,) = [line for line in kiosk("doctor").out.splitlines() if line.startswith("  belfry")]
    assert "paused until" in line


def test_behind_a_freeze_nothing_is_overdue_and_the_way_on_is_said(
    kiosk: Terminal, database_url: str
):
    kiosk.ref(*call("ring", bell="a"))
    kiosk("freeze", "--tool", "ring", "--reason", "too loud", "--principal", "dana")
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE takeback.intents SET due_at = due_at - interval '2 minutes'")
    said = kiosk("doctor", "--json")
    assert (said.exit, said.document["problems"]) == (0, [])
    freeze, waiting = said.document["attention"]
    assert freeze.startswith("frozen: tool ring, tenant default: since ")
    assert "next: `takeback thaw --tool ring --reason '...'`" in freeze
    assert waiting.startswith("1 frozen, the first of them due at ")
    assert waiting.endswith("they wait for `takeback thaw --tool ring --reason '...'`")
    # Another freeze hides nothing of what no worker takes.
    kiosk.ref(*call("give", amount=1))
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "UPDATE takeback.intents SET due_at = takeback.now() - interval '3 minutes'"
            " WHERE tool = 'give'"
        )
    (problem,) = kiosk("doctor", "--json").document["problems"]
    assert problem.startswith("1 due, the oldest for 0:03:0")
    assert "no worker has claimed anything lately" in problem


def test_workers_that_are_seen_and_do_not_come_to_it_are_behind(kiosk: Terminal, database_url: str):
    kiosk.ref(*call("ring", bell="a"))
    kiosk("worker", "--drain")
    kiosk.ref(*call("ring", bell="b"))
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "UPDATE takeback.intents SET due_at = due_at - interval '2 minutes'"
            " WHERE state IN ('held', 'due')"
        )
    said = kiosk("doctor", "--json")
    assert (said.exit, said.document["problems"]) == (0, [])
    assert "workers are behind" in said.document["attention"][0]
    assert said.document["queue"]["worker_seen_seconds"] < 60
    assert "  workers      last claimed something " in kiosk("doctor").out


def test_calls_that_wait_for_a_person_are_counted_with_the_next_command(kiosk: Terminal):
    kiosk.ref(*call("give", amount=500))
    (said,) = kiosk("doctor", "--json").document["attention"]
    assert said.startswith("1 for a person to approve, the oldest called at ")
    assert "`takeback list --state awaiting_approval`" in said


def test_what_was_left_behind_and_what_is_in_doubt_are_counted(kiosk: Terminal, database_url: str):
    for bell in ("a", "b"):
        kiosk.ref(*call("ring", bell=bell))
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "UPDATE takeback.intents SET state = 'executing', lease_until = recorded_at,"
            " attempt = 1 WHERE ref = (SELECT min(ref) FROM takeback.intents)"
        )
        connection.execute("UPDATE takeback.intents SET state = 'parked' WHERE state = 'due'")
    document = kiosk("doctor", "--json").document
    assert document["queue"]["expired_leases"] == 1
    assert (document["queue"]["in_doubt"], document["queue"]["parked"]) == (0, 1)
    told = kiosk("doctor").out
    assert "  in doubt     0\n  parked       1, until a person says what became of them\n" in told
    for state in ("in_doubt", "parked"):
        listed = kiosk("list", "--state", state, "--json").document
        assert len(listed) == document["queue"][state] == int(state == "parked")
    assert len(document["notes"]) == 1
    (parked,) = document["attention"]
    assert parked.startswith("1 parked, the oldest called at 2")
    assert "next: `takeback list --state parked`" in parked


def test_who_holds_back_the_readers_of_the_log_is_named(kiosk: Terminal, database_url: str):
    with psycopg.connect(database_url) as connection:
        connection.execute("SELECT pg_advisory_xact_lock_shared(31418, 1)")
        pid = connection.info.backend_pid
        holders = kiosk("doctor", "--json").document["queue"]["holders"]
        assert [one["pid"] for one in holders] == [pid]
        assert f"process {pid}" in kiosk("doctor").out


def test_what_a_deploy_would_strand_is_listed(kiosk: Terminal, database_url: str):
    kiosk.ref(*call("post", to="dana"))
    kiosk.ref(*call("ring", bell="a"))
    kiosk.ref(*call("give", amount=1))
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE takeback.intents SET tool = 'gone' WHERE tool = 'post'")
        connection.execute("UPDATE takeback.intents SET tool_version = 7 WHERE tool = 'ring'")
        connection.execute("UPDATE takeback.intents SET tool_version = 0 WHERE tool = 'give'")
    said = kiosk("doctor", "--json")
    assert said.exit == 1
    stranded = {one["tool"]: one["problem"] for one in said.document["stranded"]}
    assert stranded == {
        "gone": "the catalog has no such tool",
        "ring": "the catalog's row is older: version 1",
        "give": "no upgrade leads to version 1",
    }


def test_an_attempt_that_outlasts_the_lease_is_wrong(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_LEASE_SECONDS", "0.2")
    said = kiosk("doctor", "--json")
    assert said.exit == 1
    assert "lease" in said.document["problems"][0]


def test_a_server_that_is_a_replica_or_too_old_would_be_said(kiosk: Terminal):
    from datetime import UTC, datetime

    from takeback.cli.doctor import Examination, _server
    from takeback.ledger.health import Health

    found = Examination()
    health = Health(
        server_version="14.9",
        server_number=140_009,
        now=datetime(2026, 11, 29, tzinfo=UTC),
        is_replica=True,
        revision="0003",
        queue=None,
        faults=0,
    )
    _server(health, found, here=health.now.timestamp() - 90)
    assert ["14.9" in found.problems[0], "replica" in found.problems[1]] == [True, True]
    assert "90.0 s ahead" in found.notes[0]


def test_calls_that_the_keys_of_today_would_do_again_are_named(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    assert kiosk(*call("paint", wall="north", colour="green")).exit == 0
    assert kiosk("doctor", "--json").document["keys"] == []
    monkeypatch.setenv("TAKEBACK_KEY_SECRET", "another secret of the keys")
    said = kiosk("doctor", "--json")
    assert said.exit == 1
    assert said.document["keys"] == [{"tool": "paint", "intents": 1, "looked_at": 1}]
    assert any("would be done again" in problem for problem in said.document["problems"])


METER = """
from pydantic import BaseModel
from takeback import Takeback
from takeback.declare import Catalog, Limit, Local, Tool, days

class Read(BaseModel):
    meter: str

TOOL = Tool(
    "note_meter", Read, description="Notes a meter.", effect=Local(retention=days(1)),
    key=("meter",), limits=(Limit(per=days(1), count=3),),
)

class _Handler:
    def perform(self, session, arguments): return None
    def restore(self, session, original): return None

app = Takeback(Catalog(TOOL), handlers={"note_meter": _Handler()})
"""


def test_people_read_what_is_left_under_each_limit_and_how_a_row_bounds_it(
    kiosk: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "meter.py").write_text(METER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAKEBACK_APP", "meter:app")
    assert kiosk(*call("note_meter", meter="m-1")).exit == 0
    out = kiosk("doctor").out
    assert "  tool:note_meter  at most 3 calls within 1 day by this tool, 2 left" in out
    row = kiosk("catalog", "show", "note_meter", "--json").document
    assert row["limits"] == ["per 86400 s, count 3, scope tool, over approve"]
