"""The measurements run, say what they measured, and put the floor beside it."""

import json

import pytest

from takeback.bench.recording import DRIVERS, VARIANTS
from takeback.bench.run import CLIENTS, main


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_quick_bench_measures_every_variant_and_leaves_nothing(database_url, monkeypatch, capsys):
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", database_url)
    assert main(json_output=True, quick=True) == 0
    document = json.loads(capsys.readouterr().out)
    measured = {(r["clients"], r["driver"], r["variant"]) for r in document["recording"]}
    assert measured == {(c, d, v) for c in CLIENTS for d in DRIVERS for v in VARIANTS}
    statements = {r["variant"]: r["statements"] for r in document["recording"]}
    assert statements == {"bare": 1, "two_rows": 2, "call": 2, "held": 2}
    assert all(rate > 0 for rate in document["speeds"].values())
    assert set(document["speeds"]) == {"replay", "call_many"}
    assert set(document["delivery"]["brokers_missing"]) == {"redis", "rabbitmq"}
    assert set(document["embedded"]) == {"cold_seconds", "warm_seconds"}
