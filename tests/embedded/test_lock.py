"""A lock is its process': not its children's, not a deleted file's."""

import os
import subprocess
import sys

import pytest

from takeback.embedded.lock import FileLock, is_held, sleep_while_held, wait_until_free


def test_a_lock_is_taken_once(tmp_path):
    lock = FileLock.take(tmp_path / "lock", wait_s=0)
    assert lock is not None
    assert FileLock.take(tmp_path / "lock", wait_s=0.05) is None
    assert is_held(tmp_path / "lock")
    lock.release()
    assert not is_held(tmp_path / "lock")


def test_a_lock_that_never_was_is_free(tmp_path):
    assert not is_held(tmp_path / "lock")
    assert wait_until_free(tmp_path / "lock", wait_s=0)
    sleep_while_held(tmp_path / "lock")
    assert not (tmp_path / "lock").exists()


def test_looking_at_a_lock_does_not_take_it(tmp_path):
    (tmp_path / "lock").touch()
    watcher = os.open(tmp_path / "lock", os.O_RDONLY)
    assert not is_held(tmp_path / "lock")
    with FileLock.create(tmp_path / "other", "") as lock:
        assert is_held(lock.path)
        assert is_held(lock.path)
    os.close(watcher)


def test_a_lock_on_a_deleted_file_is_no_lock(tmp_path):
    first = FileLock.take(tmp_path / "lock", wait_s=0)
    (tmp_path / "lock").unlink()
    second = FileLock.take(tmp_path / "lock", wait_s=0)
    assert first is not None
    assert second is not None
    for lock in (first, second):
        lock.release()


def test_a_forked_child_holds_nothing(tmp_path):
    lock = FileLock.create(tmp_path / "lock", "")
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.released else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert is_held(lock.path)
    lock.release()


def test_a_lock_handed_over_lives_as_long_as_the_program(tmp_path):
    with FileLock.create(tmp_path / "lock", "") as lock:
        program = subprocess.Popen(
            [sys.executable, "-c", "input()"],
            stdin=subprocess.PIPE,
            pass_fds=[lock.descriptor],
        )
    assert is_held(tmp_path / "lock")
    program.communicate(b"\n")
    assert wait_until_free(tmp_path / "lock", wait_s=5)


def test_a_released_lock_cannot_be_handed_over(tmp_path):
    lock = FileLock.create(tmp_path / "lock", "")
    lock.release()
    lock.release()
    with pytest.raises(ValueError, match="was released"):
        assert lock.descriptor


def test_a_symlink_in_place_of_a_lock_is_not_followed(tmp_path):
    (tmp_path / "target").touch()
    (tmp_path / "lock").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"):
        FileLock.take(tmp_path / "lock", wait_s=0)
