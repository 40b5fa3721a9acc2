"""An engine broken by hand is found out: what these suites can't see, they don't protect.

Each mutant is a copy of the engine without one of its rules; the tests that it names must fail.

    TAKEBACK_TEST_EXHAUSTIVE=1 make test ARGS="tests/crash -k mutant"
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.test_death import EXHAUSTIVE

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 300
TESTS_FAILED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """``old`` stands in ``file`` once, and becomes ``new``; ``tests`` is what pytest is told."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = {
    "marked after the call": Mutant(
        file="dispatch/crew.py",
        old="""
        begun = self._executor.begin(work, lease_ends_at)
        if not isinstance(begun, Work):
            return begun
        self._begun[identity(begun.intent)] = (self._monotonic(), begun)
        return Ended(work=begun, outcome=self._executor.perform(begun))
""",
        new="""
        outcome = self._executor.perform(work)
        begun = self._executor.begin(work, lease_ends_at)
        if not isinstance(begun, Work):
            return begun
        return Ended(work=begun, outcome=outcome)
""",
        tests=("tests/crash/test_death.py", "-k", "carry and blind and not compensate"),
    ),
    "begun without a commit": Mutant(
        file="dispatch/executor.py",
        old="""
        (intent,) = append(tx, [Change(taken=taken, events=events)])
""",
        new="""
        from takeback.model.evolve import foresee
        intent = foresee(taken.intent, events, taken.now)
""",
        tests=("tests/crash/test_death.py", "-k", "carry and blind and not compensate"),
    ),
    "tried again although it may have arrived": Mutant(
        file="dispatch/reaper.py",
        old="""
        events = decide(intent, commands.ExpireLease(), one.now)
""",
        new="""
        again = commands.Defer(wait=one.now - one.now)
        is_claimed = intent.state is State.CLAIMED
        events = decide(intent, commands.ExpireLease() if is_claimed else again, one.now)
""",
        tests=("tests/crash/test_death.py", "-k", "carry and blind and not compensate"),
    ),
    "begun although it is frozen": Mutant(
        file="dispatch/executor.py",
        old="if taken.is_frozen:",
        new="if False:",
        tests=("tests/dispatch/test_freeze_race.py", "-k", "begin_whose"),
    ),
    "claimed although it is frozen": Mutant(
        file="dispatch/dispatcher.py",
        old="[one for one in due if not one.is_frozen]",
        new="list(due)",
        tests=("tests/dispatch/test_freeze_race.py", "-k", "claim_whose"),
    ),
    "frozen as a snapshot has it": Mutant(
        file="client/braking.py",
        old="if not is_frozen and not is_last_word:",
        new="if False:",
        tests=("tests/dispatch/test_freeze_race.py", "-k", "no_snapshot"),
    ),
    "a freeze that waits for nobody": Mutant(
        file="client/braking.py",
        old="while waiting and context.monotonic() < ends:",
        new="while False:",
        tests=("tests/dispatch/test_freeze_race.py", "-k", "open_transaction", "-x"),
    ),
    "released beside somebody who sums up": Mutant(
        file="ledger/limiting.py",
        old="""
    return {lock for lock, taken in tx.rows(TRY_SCOPES, {"locks": locks}) if not taken}
""",
        new="""
    assert locks
    return set()
""",
        tests=("tests/dispatch/test_limit.py", "-k", "last_unit"),
    ),
    "settled without a fence": Mutant(
        file="dispatch/settler.py",
        old="is_ours = is_held_still(own, taken.intent) or (",
        new="is_ours = True or (",
        tests=("tests/dispatch/test_fencing.py",),
    ),
    "claimed without a lock": Mutant(
        file="ledger/claiming.py",
        old="ORDER BY i.lane, i.priority, i.due_at LIMIT q.room FOR UPDATE OF i SKIP LOCKED) AS i",
        new="ORDER BY i.lane, i.priority, i.due_at LIMIT q.room) AS i",
        tests=("tests/dispatch/test_claim.py", "-k", "wake_up"),
    ),
    "recorded beside the caller's transaction": Mutant(
        file="client/calling.py",
        old="context, given, lambda tx: call_in(context, tx, request, savepoint=savepoint)",
        new="context, None, lambda tx: call_in(context, tx, request, savepoint=savepoint)",
        tests=("tests/crash/test_death.py", "-k", "record and caller"),
    ),
    "whose turn it is, by an old snapshot": Mutant(
        file="dispatch/turn.py",
        old="""
        waiting |= out_of_turn(tx, looked_at)
""",
        new="""
        pass
""",
        tests=("tests/dispatch/test_connector_turn.py", "-k", "old_snapshot"),
    ),
    "rooms without a lock": Mutant(
        file="ledger/governing.py",
        old="""
ORDER BY c.name FOR UPDATE SKIP LOCKED
""",
        new="""
ORDER BY c.name
""",
        tests=("tests/dispatch/test_connector_outage.py", "-k", "two_workers"),
    ),
    "an outage that spends attempts": Mutant(
        file="dispatch/listener.py",
        old="""
                    one.outcome, attempts=max(counted, 1), is_spared=before > 0
""",
        new="""
                    one.outcome, attempts=intent.attempt, is_spared=False
""",
        tests=("tests/dispatch/test_connector_outage.py", "-k", "alone_in_its_lane"),
    ),
}


@EXHAUSTIVE
@pytest.mark.slow
@pytest.mark.timeout(SECONDS_MAX)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_of_the_engine_is_found_out(name: str, tmp_path: Path):
    mutant = MUTANTS[name]
    engine = tmp_path / "engine"
    shutil.copytree(ROOT / "engine", engine, ignore=shutil.ignore_patterns("__pycache__"))
    file = engine / "takeback" / mutant.file
    text = file.read_text()
    assert text.count(mutant.old) == 1, f"the mutant is stale: {mutant.file} has changed"
    file.write_text(text.replace(mutant.old, mutant.new))

    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *mutant.tests,
            "-q",
            "-x",
            "-n0",
            "-p",
            "no:cacheprovider",
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(engine)},
        capture_output=True,
        text=True,
        check=False,
    )

    said = run.stdout[-3000:] + run.stderr[-1000:]
    assert run.returncode == TESTS_FAILED, f"{name} was not found out:\n{said}"
    assert " failed" in said, said
