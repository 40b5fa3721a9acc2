"""Randomness in tests can be replayed: one seed a run, printed, and pinned by the environment."""

import random
import subprocess
import sys

import hypothesis


def test_the_dice_fall_alike_for_the_same_seed_and_test(rng, seed, request):
    again = random.Random(f"{seed} {request.node.nodeid}")
    assert [rng.random() for _ in range(3)] == [again.random() for _ in range(3)]


def test_the_seed_of_the_environment_is_taken_and_printed():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider"]
    shown = subprocess.run(
        [*command, __file__],
        env={"TAKEBACK_TEST_SEED": "4711", "PATH": "/usr/bin:/bin"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "dice: TAKEBACK_TEST_SEED=4711" in shown


def test_a_failing_example_prints_what_reproduces_it():
    profile = hypothesis.settings()
    assert profile.print_blob
    assert profile.deadline is None
