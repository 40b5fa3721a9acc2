"""An app as a process of its own: found by its name, told to stop by signals, gone in ten seconds.

Every door that starts a process goes through here, so that an app is found and a worker is stopped
in one way.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from takeback import log
from takeback import settings as settings_room
from takeback.app import Takeback
from takeback.dispatch.pulse import Pulse
from takeback.ledger.remainder import Remainder
from takeback.log import logger
from takeback.meter import Meter
from takeback.model import errors
from takeback.model.errors import InvalidSettings

if TYPE_CHECKING:
    from takeback.metrics import Exposition

STOP_SECONDS_MAX = 9.5
"""Whatever a worker is stuck in, its process is gone this long after it was told to stop."""

MEMORY_ROOM_MB = 64
"""What threads and connections take before anything is carried out."""

STOPPING = frozenset({signal.SIGTERM, signal.SIGINT})

WAYS = (
    "--app module:attribute on the command line",
    "TAKEBACK_APP in the environment",
    'app = "module:attribute" under [tool.takeback] in pyproject.toml',
)
"""How an app is named; each wins over the next."""

NO_LEDGER = "the database has no ledger yet: run `takeback migrate`"


def load_named(environ: Mapping[str, str], directory: Path) -> Takeback:
    """The app that the settings name, for a process that runs in ``directory``.

    Raises InvalidSettings when none is named, or when the one that is can't be used.
    """
    name = settings_room.load(environ, directory).app
    if name is None:
        raise InvalidSettings(f"no app is named; expected one of: {'; '.join(WAYS[1:])}")
    return load(name, directory)


def load(name: str, directory: Path) -> Takeback:
    """The app at ``module:attribute``; modules in ``directory`` are found first.

    Raises InvalidSettings, which says where the app's own code failed, and InvalidCatalog.
    """
    module, _, attribute = name.partition(":")
    path = attribute.split(".")
    if not all(part.isidentifier() for part in (*module.split("."), *path)):
        raise InvalidSettings(
            f"the app is named {name!r}; expected module:attribute, such as shop.app:app"
        )
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    with _Loading(name, module, directory):
        found: Any = import_module(module)
    for part in path:
        if not hasattr(found, part):
            raise InvalidSettings(_without(name, module, found, part))
        found = getattr(found, part)
    if not isinstance(found, Takeback):
        raise InvalidSettings(
            f"the app {name!r} is a {type(found).__name__}; expected a Takeback: name the "
            "variable that holds Takeback(CATALOG, handlers=...)"
        )
    return found


def _without(name: str, module: str, found: Any, part: str) -> str:
    apps = [key for key, value in vars(found).items() if isinstance(value, Takeback)]
    there = f"; there is {module}:{apps[0]}" if apps else "; it holds no Takeback at all"
    return f"the app {name!r} can't be found: {module!r} has no attribute {part!r}{there}"


class _Loading:
    """Round the import of somebody's module: says in one sentence where it failed."""

    def __init__(self, name: str, module: str, directory: Path) -> None:
        self._name = name
        self._module = module
        self._directory = directory

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, InvalidSettings):
            return
        if isinstance(error, errors.InvalidCatalog):
            raise errors.InvalidCatalog(f"the app {self._name!r} is refused\n{error}") from error
        if isinstance(error, Exception | SystemExit):
            raise InvalidSettings(self._said(error)) from error

    def _said(self, error: Exception | SystemExit) -> str:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{self._module}.".startswith(f"{missing}."):
            return (
                f"the app {self._name!r} can't be found: no module is named {missing!r}; "
                f"looked in {str(self._directory)!r} and among the installed packages"
            )
        text = " ".join(str(error).split())
        what = f"{type(error).__name__}: {text}" if text else type(error).__name__
        return (
            f"the app {self._name!r} can't be loaded: {what}\n"
            f"at {self._place(error)}; correct it there, or name another app"
        )

    def _place(self, error: Exception | SystemExit) -> str:
        if isinstance(error, SyntaxError) and error.filename:
            return f"{self._shown(error.filename)}:{error.lineno}"
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "<" not in f.filename]
        installed = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))
        house = (*installed, str(Path(__file__).parent))
        own = [f for f in frames if not f.filename.startswith(house)]
        if not frames:
            return repr(self._module)
        last = (own or frames)[-1]
        return f"{self._shown(last.filename)}:{last.lineno}"

    def _shown(self, filename: str) -> str:
        path = Path(filename)
        return str(path.relative_to(self._directory) if self._directory in path.parents else path)


def workers(module: str) -> Any:
    """A module of the workers' package, which the extra ``dramatiq`` is for.

    The library knows it by name only. Raises InvalidSettings where the extra is not installed.
    """
    try:
        return import_module(f"takeback_workers.{module}")
    except ModuleNotFoundError as problem:
        raise InvalidSettings(
            f"a broker wants the package {problem.name!r}, which is not installed; "
            'next: pip install "takeback[dramatiq]"'
        ) from problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """What a worker's process has done.

    Of its attempts ``performed`` have succeeded and ``deferred`` are tried again later.
    ``abandoned`` threads are still busy and can't be ended. ``left`` is what a drain has left; None
    where it can't be seen, or was none. ``exhausted``: it was told nothing, and
    ended because of them; another process is rid of them.
    """

    performed: int
    failed: int
    deferred: int
    in_doubt: int
    taken_over: int
    abandoned: int
    exhausted: bool
    left: Remainder | None = None


def work(
    app: Takeback,
    *,
    drain: bool,
    concurrency: int | None = None,
    all_tenants: bool = False,
    memory_mb: int | None = None,
    metrics: str | None = None,
) -> Worked:
    """Runs an embedded worker until a signal stops it, or with ``drain`` until all is done.

    It works for the tenant of ``app``, or for all of them, and closes ``app``. ``memory_mb`` and
    ``metrics`` are in place of the settings; this process is bound to the one, and serves its
    metrics at the other, from then on. Raises InvalidSettings and
    DatabaseUnavailable when the ledger can't be used at the start; one that goes away later is
    waited for.
    """
    log.configure(app.settings.log)
    pace = replace(app.pace, all_tenants=all_tenants)
    if concurrency is not None:
        pace = replace(pace, concurrency=concurrency)
    name = f"{socket.gethostname()}:{os.getpid()}"
    with stoppable() as stop, ExitStack() as stack:
        try:
            if app.health().revision is None:
                raise errors.LedgerClosed(NO_LEDGER)
            watched = watch(app, "worker", metrics)
            # An embedded server that this process has started is not to be bound with it.
            bound_memory(app.settings.memory_mb if memory_mb is None else memory_mb)
            worker = app.worker(name=name, sleep=stop.sleep, stopping=stop.asked, pace=pace)
            if watched is not None:
                stack.enter_context(watched.expose(worker.pulse))
            logger.info("worker_started", worker=name, concurrency=pace.concurrency, drain=drain)
            tally = worker.run(drain=drain)
            worked = Worked(
                performed=tally.performed,
                failed=tally.failed,
                deferred=tally.deferred,
                in_doubt=tally.in_doubt,
                taken_over=tally.taken_over,
                abandoned=worker.abandoned,
                exhausted=not drain and not stop.asked(),
                left=_left(app, all_tenants=all_tenants) if drain else None,
            )
            logger.info(
                "worker_stopped",
                worker=name,
                performed=worked.performed,
                taken_over=worked.taken_over,
                abandoned=worked.abandoned,
            )
        finally:
            app.close()
    return worked


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """An app whose process, of the kind ``process``, is to serve its metrics at ``where``."""

    app: Takeback
    process: str
    where: str
    meter: Meter

    def expose(self, pulse: Callable[[], Pulse | None], *, ports: int = 1) -> Exposition:
        """Serves them from now on; ``pulse`` says how the process is. Raises InvalidSettings when
        none of so many ``ports`` is free.
        """
        # A tenth of a second to import, and only this needs it.
        from takeback import metrics

        watched = metrics.Watched(
            process=self.process,
            version=version("takeback"),
            meter=self.meter,
            pulse=pulse,
            backlog=self.app.backlog,
            monotonic=self.app.context.monotonic,
        )
        return metrics.expose(self.where, watched, ports=ports)


def watch(app: Takeback, process: str, where: str | None = None) -> Watch | None:
    """Has all that ``app`` carries out from now on counted, where it is to be served: at ``where``,
    else at the setting's address, else nowhere.
    """
    found = app.settings.metrics if where is None else where
    if found is None:
        return None
    return Watch(app=app, process=process, where=found, meter=app.metered())


def _left(app: Takeback, *, all_tenants: bool) -> Remainder | None:
    """What there still is; a database that has gone away is not waited for."""
    with suppress(errors.Unavailable):
        return app.remainder(all_tenants=all_tenants)
    return None


def bound_memory(megabytes: int | None) -> None:
    """From now on this process gets no more data memory than that: a handler that eats it all ends
    in MemoryError, and nobody else is ended by the kernel for it. None bounds nothing.

    What it starts is bound likewise, each process for itself. Raises InvalidSettings when it has
    about as much already.
    """
    if megabytes is None:
        return
    needed = _data_megabytes() + MEMORY_ROOM_MB
    if megabytes < needed:
        raise InvalidSettings(
            f"memory_mb is {megabytes}; this process needs {needed} before it carries anything out"
        )
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (megabytes * 2**20, most))


def _data_megabytes() -> int:
    """How much data memory this process has; 0 where the system doesn't say."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "VmData":
                return int(value.split()[0]) // 1024
    return 0


def leave(code: int) -> None:
    """Ends the process at once, whatever its threads are doing; for the main thread."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


class Stop:
    """Whether the process was told to stop; ``sleep`` ends early when it is."""

    def __init__(self) -> None:
        self._told = threading.Event()

    def tell(self) -> None:
        """Stops whoever asks."""
        self._told.set()

    def asked(self) -> bool:
        """Whether it was told."""
        return self._told.is_set()

    def sleep(self, seconds: float) -> None:
        """Waits for that long, or until it is told."""
        self._told.wait(seconds)


@contextmanager
def stoppable() -> Iterator[Stop]:
    """SIGTERM and SIGINT tell the block to stop; a second one ends the process at once.

    So does the time, when the block does not end: STOP_SECONDS_MAX after it was told. The signals
    are read by a thread, from the descriptor that the interpreter writes them to as they come:
    the main thread may be stuck in a driver.
    """
    stop = Stop()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    former = {number: signal.signal(number, _noted) for number in STOPPING}
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    watcher = threading.Thread(
        target=_watch, args=(reading, stop), name="takeback-signals", daemon=True
    )
    watcher.start()
    try:
        yield stop
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in former.items():
            signal.signal(number, handler)
        os.close(writing)
        watcher.join()
        os.close(reading)


def _noted(number: int, frame: FrameType | None) -> None:
    """The descriptor has it; without a handler the interpreter would end, or raise."""


def _watch(reading: int, stop: Stop) -> None:
    if _next_signal(reading) is None:
        return
    stop.tell()
    force = threading.Timer(STOP_SECONDS_MAX, _stop_by_force)
    force.daemon = True
    force.start()
    second = _next_signal(reading)
    if second is not None:
        os._exit(128 + second)
    force.cancel()


def _next_signal(reading: int) -> int | None:
    """The next signal that stops; None when the block has ended."""
    while byte := os.read(reading, 1):
        if byte[0] in STOPPING:
            return byte[0]
    return None


def _stop_by_force() -> None:
    logger.error("stopped_by_force", seconds=STOP_SECONDS_MAX)
    os._exit(1)
