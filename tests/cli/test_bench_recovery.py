"""`takeback bench recovery`: a sample of malformed calls, measured, printed and kept."""

import json

import psycopg
import pytest

from takeback.bench.recovery import main
from tests.cli.terminal import Terminal


def databases(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT datname FROM pg_database").fetchall()
    return {name for (name,) in found if name.startswith("takeback_bench_")}


def test_a_sample_is_measured_kept_and_leaves_nothing(server_url, monkeypatch, capsys, tmp_path):
    """S2.26: the distribution of attempts, tokens, wrong commits and reasons to stop."""
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", server_url)
    before = databases(server_url)
    kept = tmp_path / "kept.json"
    assert main(json_output=True, count=40, store=kept) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cases"] == 40
    assert set(document["scores"]) == {
        "whole",
        "no candidates",
        "first violation only",
        "prose only",
    }
    informed = document["scores"]["whole"]["informed"]
    assert informed["attempts"] == {"2": 40}
    assert informed["wrong_commits"] == 0
    assert informed["tokens_mean"] > 0
    assert document["before"]["whole"]["informed"]["right"] == 1.0
    assert json.loads(kept.read_text()) == {
        name: value for name, value in document.items() if name != "before"
    }
    assert databases(server_url) == before


def test_people_get_a_table_and_why_nothing_is_compared(server_url, monkeypatch, capsys):
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", server_url)
    monkeypatch.setenv("COLUMNS", "120")
    assert main(count=40) == 0
    told = capsys.readouterr().out
    assert "40 malformed calls" in told
    assert "was measured on" in told


@pytest.mark.parametrize(
    "typed", [["tea"], ["recovery", "--quick"], ["--sample", "5"], ["recovery", "--sample", "0"]]
)
def test_what_is_no_measurement_is_said_to_be_none(terminal: Terminal, typed):
    said = terminal("bench", *typed)
    assert said.exit == 2
