"""Nothing of an exception's text reaches a model, whatever it is, says, holds or hides."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
import sqlalchemy.exc

from takeback import Call, Envelope, HandlerError, Takeback
from takeback.model import errors
from takeback.model.code import CODES
from tests.client.planted import planted

LETTER = {"to": "dana@example.com", "subject": "hello"}
COUNT = 200
DRIVEN = 60

SECRETS = (
    "hunter2",
    "sk_live_51HxQ9",
    "SELECT password FROM users WHERE id = 7",
    "INSERT INTO takeback.intents",
    "/srv/secret/app.py",
    'File "/srv/secret/app.py", line 7, in perform',
    "SQLSTATE 23505",
    "HTTP/1.1 503",
    "status code 429",
    "psycopg 3.3.9",
    "SQLAlchemy/2.1.9",
    "https://sqlalche.me/e/20/gkpj",
    "postgresql://me:hunter2@db.internal/prod",
    "Traceback (most recent call last)",
    "0x7f3a2c00",
    "\u202egnp.exe",
    "\ud800 surrogate",
    "nul \0 nul",
)
NEVER = ("Traceback", ".py", "psycopg", "sqlalchemy", "SQLAlchemy", "0x7f", "Exception", "hunter")
BUILTINS = (
    *(ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, ImportError),
    *(IndexError, KeyError, LookupError, MemoryError, NameError, NotImplementedError, OSError),
    *(OverflowError, PermissionError, RecursionError, ReferenceError, RuntimeError),
    *(StopAsyncIteration, StopIteration, SyntaxError, SystemError, TimeoutError, TypeError),
    *(UnboundLocalError, UserWarning, ValueError, ZeroDivisionError, ConnectionResetError),
)
STATES = ("23505", "23503", "22P02", "42601", "42501", "XX000", "40001", "57014", "P0001", "08006")
OURS = (
    errors.DatabaseUnavailable,
    errors.EmbeddedUnavailable,
    errors.InvalidCatalog,
    errors.InvalidSettings,
    errors.LedgerClosed,
    errors.LedgerCorrupt,
    errors.NotDispatched,
    errors.NoTransaction,
    errors.OutcomeUnknown,
    errors.UnsupportedConnection,
    type("OwnHandlerError", (HandlerError,), {}),
)


class Response:
    """What HTTP libraries hang on their exceptions."""

    def __init__(self, text: str) -> None:
        self.status_code, self.text, self.reason = 503, text, text


class HTTPStatusError(Exception):
    """As httpx and requests have it."""

    def __init__(self, text: str) -> None:
        super().__init__(f"Server error '503 Service Unavailable' for url '{text}'")
        self.response = Response(text)


class Hostile(Exception):
    """Nothing can be asked of it."""

    def __str__(self) -> str:
        raise RuntimeError(*self.args)

    __repr__ = __str__


class Wordless(Exception):
    """Its text is no text."""

    def __str__(self) -> str:
        return self.args  # type: ignore[return-value]


def of_sqlalchemy(text: str, dice: random.Random) -> Exception:
    kind = dice.choice(
        (
            sqlalchemy.exc.IntegrityError,
            sqlalchemy.exc.OperationalError,
            sqlalchemy.exc.ProgrammingError,
            sqlalchemy.exc.DataError,
        )
    )
    if dice.random() < 0.2:
        return sqlalchemy.exc.StatementError(text, text, {"password": text}, ValueError(text))
    return kind(text, {"password": text}, of_psycopg(text, dice))


def of_psycopg(text: str, dice: random.Random) -> Exception:
    return psycopg.errors.lookup(dice.choice(STATES))(text)


KINDS: tuple[Callable[[str, random.Random], Exception], ...] = (
    lambda text, dice: dice.choice(BUILTINS)(text),
    lambda text, dice: OSError(dice.randrange(1, 120), text, text),
    lambda text, _: UnicodeDecodeError("utf-8", text.encode(errors="replace"), 0, 1, text),
    of_sqlalchemy,
    of_psycopg,
    lambda text, _: psycopg.OperationalError(text),
    lambda text, _: psycopg.InterfaceError(text),
    lambda text, _: sqlalchemy.exc.InvalidRequestError(text),
    lambda text, _: sqlalchemy.exc.ResourceClosedError(text),
    lambda text, _: HTTPStatusError(text),
    lambda text, _: Hostile(text),
    lambda text, _: Wordless(text),
    lambda text, _: type(f"Kind_{abs(hash(text))}", (Exception,), {"said": text})(text),
    lambda text, dice: ExceptionGroup(text, [generated(dice), ValueError(text)]),
)


def raised(dice: random.Random) -> Exception:
    """What a handler may raise: one of ours now and then, which says nothing on purpose here."""
    if dice.random() < 0.1:
        return dice.choice(OURS)(" | ".join(dice.sample(SECRETS, 3)))
    return generated(dice)


def generated(dice: random.Random) -> Exception:
    """An exception of any kind, holding some of the secrets, perhaps with others behind it."""
    text = " | ".join(dice.sample(SECRETS, dice.randrange(1, 5)))
    problem = dice.choice(KINDS)(text, dice)
    if dice.random() < 0.3:
        problem.__cause__ = generated(dice)
    elif dice.random() < 0.2:
        problem.__context__ = generated(dice)
    if dice.random() < 0.2:
        problem.add_note(text)
    return problem


def assert_silent(told: Envelope) -> None:
    """S2.17, S0.13: our own words, and a code of the list with its class."""
    document = told.to_json()
    json.loads(document)
    for one in (*SECRETS, *NEVER):
        assert one not in document, document
        assert json.dumps(one)[1:-1] not in document, document
    if told.error is None:
        assert told.status != "refused", document
        return
    code = CODES[told.error["code"]]
    assert told.error["class"] in (code.class_.value, code.settled_class.value)
    assert told["effect"] in code.effects
    assert (told.error["retry_after_s"] is not None) is (told.error["class"] == "transient")


@pytest.fixture
def app(desk) -> Takeback:
    """It does not wait for what a handler has only made up."""
    app: Takeback = desk.make_app(pauses=lambda _: None)
    return app


def raising(problem: Exception) -> Callable[..., Any]:
    def face(*_: Any) -> Any:
        raise problem

    return face


def near(desk, app: Takeback, name: str, problem: Exception) -> Iterator[Envelope]:
    """Every answer of a Local effect or a read that the exception can come into."""
    breaks = raising(problem)
    desk.case(f"p{name}", breaks)
    desk.case(f"r{name}", restore=breaks)
    desk.case(f"d{name}", drift=breaks)
    for tool in ("act", "look", "seek", "act_standing"):
        yield app.call(None, tool, {"case": f"p{name}"})
    yield from app.call_many(None, [Call(tool="act", arguments={"case": f"p{name}"})])
    for face in "rd":
        yield app.restore(None, app.call(None, "act", {"case": f"{face}{name}"}).ref or "")
    app.call(None, "act_standing", {"case": f"d{name}"})
    yield app.call(None, "act_standing", {"case": f"d{name}"})


def test_nothing_of_two_hundred_exceptions_reaches_a_model_from_local_effects_and_reads(
    desk, app, rng
):
    """S2.17, S2.18, S0.13: builtin, SQLAlchemy, psycopg, HTTP, nested, hostile, in every face."""
    for number in range(COUNT):
        for told in near(desk, app, str(number), raised(rng)):
            assert_silent(told)


def test_nothing_of_two_hundred_exceptions_reaches_a_model_from_remote_effects(desk, app, rng):
    """S2.17, S2.18: an attempt that broke, and a compensation that did."""
    cases = [str(number) for number in range(COUNT)]
    for case in cases:
        desk.case(case, raising(raised(rng)))
        desk.case(f"r{case}", restore=raising(raised(rng)))
    performed = [app.call(None, "deliver", {"case": case}).ref for case in cases]
    restored = [app.call(None, "deliver", {"case": f"r{case}"}).ref for case in cases]
    # What is to be tried again is not waited for: nothing more of it would be told.
    once(desk, app)
    restores = [app.restore(None, ref).ref for ref in restored]
    once(desk, app)
    for ref in (*performed, *restored, *restores):
        assert_silent(app.status(ref or ""))
    for case in cases:
        assert_silent(app.call(None, "deliver", {"case": case}))


def once(desk, app: Takeback) -> None:
    """Lets workers begin everything that is recorded by now, and nothing again on purpose."""
    desk.wait_until(lambda: begun(desk, app))


def begun(desk, app: Takeback) -> bool:
    idle = threading.Event()
    worker = app.worker(name="w", sleep=lambda _: idle.set(), stopping=idle.is_set)
    worker.run()
    return not desk.value(
        "SELECT count(*) FROM takeback.intents WHERE attempt = 0 "
        "AND state IN ('due', 'claimed', 'executing')"
    )


ASKED: dict[str, Callable[[Takeback], Envelope]] = {
    "remote": lambda app: app.call(None, "send_letter", LETTER),
    "local": lambda app: app.call(None, "rename_book", {"book": "b1", "title": "x"}),
    "read": lambda app: app.call(None, "find_books", {"query": "e"}),
    "restore": lambda app: app.restore(None, "send_letter-7F3K9QDM"),
    "status": lambda app: app.status("send_letter-7F3K9QDM"),
    "batch": lambda app: app.call_many(None, [Call(tool="send_letter", arguments=LETTER)])[0],
}


@pytest.mark.parametrize("asked", ASKED)
def test_nothing_of_an_exception_in_the_driver_reaches_a_model(desk, app, rng, asked):
    """S2.17, S2.18, S0.9, S0.13: whichever statement of the ledger it hits."""
    plant = planted(app)
    app.context = replace(app.context, monotonic=lambda: 0.0)
    for _ in range(DRIVEN):
        plant.put(generated(rng), after=rng.randrange(4))
        told = ASKED[asked](app)
        plant.waiting.clear()
        if told.status not in ("ok", "done", "scheduled"):
            assert_silent(told)
        assert "matches" not in told or told["matches"], "down is not empty"
