"""A worker at work in a thread of its own, with a watch that the test sets."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from tests.dispatch.office import Office, World

SECONDS_MAX = 30
SLEEP_SECONDS = 0.01


class Watch:
    """How much time has passed, by its owner's word; ``monotonic`` of a worker."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Shift:
    """Works until the block is left. ``watch`` tells it how long attempts take."""

    def __init__(self, office: Office, name: str = "w1", **paces: Any) -> None:
        self.watch = Watch()
        self.office = office
        self._stop = threading.Event()
        self.worker = office.worker_of(
            name,
            sleep=self._sleep,
            stopping=self._stop.is_set,
            monotonic=self.watch,
            **paces,
        )
        self._thread = threading.Thread(target=self._run, name=name)
        self._problem: BaseException | None = None

    def _sleep(self, seconds: float) -> None:
        """Passes by the watch, and hardly for real."""
        self.watch.seconds += seconds
        self._stop.wait(SLEEP_SECONDS)

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as problem:  # noqa: BLE001
            self._problem = problem

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def tell_to_stop(self) -> None:
        """As SIGTERM does."""
        self._stop.set()

    def join(self) -> None:
        """Returns when the worker has stopped; raises what it has raised."""
        self._thread.join(SECONDS_MAX)
        assert not self._thread.is_alive(), "the worker did not stop"
        if self._problem is not None:
            raise self._problem

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.tell_to_stop()
        self.join()


def eventually(met: Callable[[], bool], what: str) -> None:
    """Returns when ``met``; another thread has been set going that will bring it about."""
    pause = threading.Event()
    for _ in range(SECONDS_MAX * 100):
        if met():
            return
        pause.wait(0.01)
    raise TimeoutError(f"it never came about that {what}")


class Door:
    """Where a call waits: ``knocked`` says that it came, ``open`` lets all go on."""

    def __init__(self) -> None:
        self._knocks = threading.Semaphore(0)
        self._open = threading.Event()

    def wait(self) -> None:
        """What the caller does."""
        self._knocks.release()
        assert self._open.wait(SECONDS_MAX), "nobody opened"

    def knocked(self, times: int = 1) -> None:
        """Returns when so many have come."""
        for _ in range(times):
            assert self._knocks.acquire(timeout=SECONDS_MAX), "nobody came"

    def open(self) -> None:
        """Lets everybody go on, also who comes later."""
        self._open.set()


@contextmanager
def before(world: World, *tools: str) -> Iterator[Door]:
    """A door before ``tools``: who calls one of them for "dana" waits there before it arrives."""
    door = Door()

    def behind(called: Any) -> Any:
        if called.to == "dana":
            door.wait()
        return world.arrive(called)

    world.on.update(dict.fromkeys(tools, behind))
    yield door
    door.open()
