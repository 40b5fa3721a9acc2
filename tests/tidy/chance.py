"""Who may read a clock, roll dice or sleep, and where everything is caught."""

import ast
from collections.abc import Iterator

from tests.tidy.source import Finding, Rule, Source, Sources, aliases, dotted, references, under

CLOCKS = (
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "time.localtime",
    "time.monotonic",
    "time.monotonic_ns",
    "time.perf_counter",
    "time.perf_counter_ns",
    "time.time",
    "time.time_ns",
)
DICE = ("os.urandom", "random", "secrets", "uuid.uuid1", "uuid.uuid4", "uuid.uuid7")
SLEEPS = ("asyncio.sleep", "time.sleep")

# Fakes have a clock of their own to give; what is measured needs one to measure with.
CLOCK_AND_DICE_ALLOWED = {
    # The composition root: what the rooms below are handed comes from here.
    "takeback.desk": ("secrets.token_bytes", "time.monotonic"),
    "takeback.bench": (*CLOCKS, *DICE),
    # How far this machine's clock is from the database's is what it looks for.
    "takeback.cli.doctor": ("time.time",),
    "takeback.testing": (*CLOCKS, *DICE),
    # Deadlines of a conversation are counted on this machine.
    "takeback.connectors": ("time.monotonic",),
    # So is how long a server may take to come up; there is no database yet. A file needs a name.
    "takeback.embedded": ("secrets.token_hex", "time.monotonic"),
}
SLEEP_ALLOWED = ("takeback.embedded",)
# A process whose parent is somebody else tells nobody that it has ended: one looks again.
TEST_SLEEP_ALLOWED = ("tests.embedded",)

# Round the handler call, where whatever happens becomes "in doubt": one place, in one module.
CATCH_ALL_MODULE = "takeback.client.face"
CATCH_ALL_MAX = 1


def nobody_reads_a_clock_or_rolls_dice(sources: Sources) -> Iterator[Finding]:
    for source in sources:
        if source.is_code:
            for name, line in references(source.tree):
                if under(name, (*CLOCKS, *DICE)) and not allowed(source, name):
                    yield Finding(source.path, line, f"{name}: take `tx.now`, or have it handed in")


def allowed(source: Source, name: str) -> bool:
    """A module that only holds names (`secrets`) is judged by what is taken from it."""
    return any(
        under(source.module, [room])
        and (under(name, names) or any(under(it, [name]) for it in names))
        for room, names in CLOCK_AND_DICE_ALLOWED.items()
    )


def nobody_sleeps(sources: Sources) -> Iterator[Finding]:
    """`asyncio.sleep(0)` gives way and waits for nothing: it is no sleep."""
    for source in sources:
        rooms = TEST_SLEEP_ALLOWED if source.is_test else SLEEP_ALLOWED
        if (source.is_code or source.is_test) and not under(source.module, rooms):
            names = aliases(source.tree)
            for node in ast.walk(source.tree):
                if isinstance(node, ast.Call) and dotted(node.func, names) in SLEEPS:
                    match node.args:
                        case [ast.Constant(value=0)]:
                            continue
                    what = "sleeps; wait for what happens: an event, a row, a lock, a process"
                    yield Finding(source.path, node.lineno, what)


def everything_is_caught_in_one_place(sources: Sources) -> Iterator[Finding]:
    caught = 0
    for source in sources:
        if source.is_code:
            for node in ast.walk(source.tree):
                if isinstance(node, ast.ExceptHandler) and is_blind(node):
                    caught += 1
                    if source.module != CATCH_ALL_MODULE or caught > CATCH_ALL_MAX:
                        what = "catches everything; name what can happen here"
                        yield Finding(source.path, node.lineno, what)


def is_blind(handler: ast.ExceptHandler) -> bool:
    """Whether it catches everything and keeps it: one that raises again only tidies up."""
    match handler.body[-1]:
        case ast.Raise(exc=None):
            return False
    match handler.type:
        case None:
            return True
        case ast.Tuple(elts=kinds):
            return any(is_everything(kind) for kind in kinds)
        case kind:
            return is_everything(kind)


def is_everything(kind: ast.expr) -> bool:
    return isinstance(kind, ast.Name) and kind.id in ("Exception", "BaseException")


_ENGINE = "engine/takeback/client/a.py"
_HANDLER = "engine/takeback/client/face.py"
_TEST = "tests/client/test_a.py"
_CATCH_ALL = "try:\n    f()\nexcept Exception:\n    g()\n"

RULES = (
    Rule(
        find=nobody_reads_a_clock_or_rolls_dice,
        bad=[
            {_ENGINE: "import datetime as dt\nx = dt.datetime.now(dt.UTC)\n"},
            {_ENGINE: "from datetime import datetime\nx = datetime.utcnow()\n"},
            {_ENGINE: "import time\nx = time.time()\n"},
            {_ENGINE: "from uuid import uuid4\nx = f(default_factory=uuid4)\n"},
            {_ENGINE: "import random\nx = random.Random(7)\n"},
            {_ENGINE: "import secrets\nx = secrets.token_bytes(32)\n"},
            {"engine/takeback/embedded/a.py": "import time\nx = time.time()\n"},
        ],
        good=[
            {"engine/takeback/embedded/a.py": "import time\nx = time.monotonic()\n"},
            {"engine/takeback/testing/a.py": "import random\nx = random.Random(7)\n"},
            {_ENGINE: "from datetime import datetime\ndef f(at: datetime): return at\n"},
            {_TEST: "import time\nx = time.monotonic()\n"},
        ],
    ),
    Rule(
        find=nobody_sleeps,
        bad=[
            {_ENGINE: "import time\ntime.sleep(1)\n"},
            {_TEST: "from asyncio import sleep\nasync def f(): await sleep(0.1)\n"},
        ],
        good=[{_TEST: "import asyncio\nasync def f(): await asyncio.sleep(0)\n"}],
    ),
    Rule(
        find=everything_is_caught_in_one_place,
        bad=[
            {_ENGINE: _CATCH_ALL},
            {_ENGINE: "try:\n    f()\nexcept:\n    g()\n"},
            {_ENGINE: "try:\n    f()\nexcept (ValueError, BaseException) as exc:\n    g(exc)\n"},
            {_HANDLER: _CATCH_ALL * 2},
        ],
        good=[
            {_HANDLER: _CATCH_ALL},
            {_ENGINE: "try:\n    f()\nexcept BaseException:\n    g()\n    raise\n"},
            {_ENGINE: "try:\n    f()\nexcept ValueError:\n    g()\n"},
        ],
    ),
)
