"""The fake file store: a marker on top deletes, its removal restores, and every way to fail."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from takeback.model.errors import NotDispatched, OutcomeUnknown, Rejected
from takeback.model.handler import Absent, Affected, Attempt, Original, Performed
from takeback.testing import FakeFiles, ProviderFault, ProviderRefused
from takeback.testing.files import delete_handler
from tests.connectors.peer import attempt as any_attempt
from tests.testing import race

FRESH = multiprocessing.get_context("spawn")
PATH = SimpleNamespace(path="a.txt")


@pytest.fixture
def files(tmp_path: Path) -> FakeFiles:
    return race.files(tmp_path)


def attempt(key: str) -> Attempt:
    return replace(any_attempt(), provider_key=key)


def original(performed: Performed) -> Original:
    return Original(
        intent_id="0199",
        ref="delete_attachment-7F3K9QDM",
        tenant="acme",
        arguments={"path": "a.txt"},
        result=performed.result,
    )


def refused(code: str, call, *args, **options) -> None:
    with pytest.raises(ProviderRefused) as refusal:
        call(*args, **options)
    assert refusal.value.code == code


def test_a_deleted_file_is_gone_and_its_versions_stay(files):
    files.put("a.txt", b"two\0\xff", key="p")
    marker = files.delete("a.txt", key="d")
    assert not files.exists("a.txt")
    refused("no_such_file", files.read, "a.txt")
    assert [version.content for version in files.versions("a.txt")] == [b"one", b"two\0\xff", None]
    assert files.versions("a.txt")[-1].id == marker
    files.remove_marker("a.txt", marker, key="r")
    assert files.read("a.txt") == b"two\0\xff"


def test_only_what_exists_is_deleted(files):
    refused("no_such_file", files.delete, "b.txt", key="a")
    files.delete("a.txt", key="b")
    refused("no_such_file", files.delete, "a.txt", key="c")
    assert len(files.versions("a.txt")) == 2


def test_only_the_newest_marker_is_removed(files):
    marker = files.delete("a.txt", key="d")
    refused("no_such_marker", files.remove_marker, "a.txt", "m99", key="r1")
    files.put("a.txt", b"new", key="p")
    refused("not_newest", files.remove_marker, "a.txt", marker, key="r2")
    assert files.read("a.txt") == b"new"


def test_the_same_key_is_one_deletion_or_one_version(files):
    assert files.delete("a.txt", key="d") == files.delete("a.txt", key="d")
    assert files.put("a.txt", b"x", key="p") == files.put("a.txt", b"x", key="p")
    refused("key_reused", files.put, "a.txt", b"y", key="p")
    assert len(files.versions("a.txt")) == 3


FAULTS = [
    (ProviderFault.DOWN, NotDispatched, 0),
    (ProviderFault.BUSY, OutcomeUnknown, 0),
    (ProviderFault.FAIL_BEFORE_COMMIT, OutcomeUnknown, 0),
    (ProviderFault.DROP_ANSWER, OutcomeUnknown, 1),
]


@pytest.mark.parametrize("fault,outcome,effects", FAULTS)
def test_each_fault_of_a_deletion_has_its_outcome_and_a_retry_makes_one_of_it(
    files, fault, outcome, effects
):
    handler = delete_handler(files)
    assert handler.find is not None
    files.inject(fault)
    with pytest.raises(outcome):
        handler.perform(PATH, attempt("a"))
    assert files.exists("a.txt") is not bool(effects)
    assert isinstance(handler.find(PATH, attempt("a")), Performed if effects else Absent)
    handler.perform(PATH, attempt("a"))
    assert len(files.versions("a.txt")) == 2


@pytest.mark.parametrize("fault,outcome,effects", FAULTS)
def test_each_fault_of_a_restore_has_its_outcome_and_a_retry_makes_one_of_it(
    files, fault, outcome, effects
):
    handler = delete_handler(files)
    assert handler.restore is not None
    deleted = original(handler.perform(PATH, attempt("a")))
    files.inject(fault)
    with pytest.raises(outcome):
        handler.restore(deleted, attempt("r"))
    assert files.exists("a.txt") is bool(effects)
    handler.restore(deleted, attempt("r"))
    assert files.read("a.txt") == b"one"


def test_the_handler_deletes_finds_and_restores(files):
    handler = delete_handler(files)
    assert handler.find is not None
    assert handler.restore is not None
    performed = handler.perform(PATH, attempt("a"))
    assert performed.affected == [Affected(kind="file", id="a.txt")]
    assert handler.find(PATH, attempt("a")) == performed
    assert handler.find(PATH, attempt("b")) == Absent()
    handler.restore(original(performed), attempt("r"))
    assert files.read("a.txt") == b"one"
    with pytest.raises(Rejected):
        handler.restore(original(performed), attempt("r2"))


def test_a_file_that_does_not_exist_is_a_rejection(files):
    with pytest.raises(Rejected, match=r"b\.txt"):
        delete_handler(files).perform(SimpleNamespace(path="b.txt"), attempt("a"))


def test_a_provider_that_is_down_can_not_be_asked(files):
    handler = delete_handler(files)
    assert handler.find is not None
    files.inject(ProviderFault.DOWN)
    assert handler.find(PATH, attempt("a")) is None


def test_several_processes_put_one_marker_and_one_of_them_wins(files, tmp_path):
    keys = [f"key-{number % 6}" for number in range(24)]
    with ProcessPoolExecutor(4, mp_context=FRESH) as pool:
        answers = list(pool.map(race.delete, [tmp_path] * 24, keys))
    winners = {key for key, answer in zip(keys, answers, strict=True) if answer != "no_such_file"}
    assert len(winners) == 1
    assert len(files.versions("a.txt")) == 2
    assert sorted(files.requests).count(winners.pop()) >= 4
