"""The desk of the tests: an app on a database of its own, a world, and eyes on both.

Handlers of ``act``, ``deliver`` and ``look`` do what a test has laid down for the case; the others
work on two tables. Each is there twice, as plain and as async functions, under the same catalog.
"""

import inspect
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg import sql as quoting
from sqlalchemy import ForeignKey, Integer, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from takeback import Affected, Handler, InvalidReference, Performed, Settings, Takeback
from takeback.declare import Catalog
from takeback.dispatch.pace import Pace
from takeback.ledger.appending import Change, append
from takeback.ledger.locking import lock
from takeback.model.command import Command
from takeback.model.decide import decide
from tests.client.catalog import CATALOG

PATIENCE_S = 20.0  # far beyond what anything here takes; a test that needs it has failed
POLL_S = 0.005

TABLES = """
CREATE SCHEMA desk;
CREATE TABLE desk.clock (shift interval NOT NULL);
INSERT INTO desk.clock VALUES ('0');
CREATE TABLE desk.books (
    id text PRIMARY KEY,
    title text NOT NULL CONSTRAINT title_is_unique UNIQUE,
    state text NOT NULL DEFAULT 'in',
    version integer NOT NULL DEFAULT 1
);
CREATE TABLE desk.loans (
    id text PRIMARY KEY,
    book text NOT NULL CONSTRAINT loan_is_of_a_book REFERENCES desk.books
        DEFERRABLE INITIALLY DEFERRED
);
INSERT INTO desk.books (id, title) VALUES ('b1', 'Emma'), ('b2', 'Ulysses'), ('b3', 'Dune');
INSERT INTO desk.loans (id, book) VALUES ('l1', 'b1'), ('l2', 'b1'), ('l3', 'b2');
CREATE OR REPLACE FUNCTION takeback.now() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL UNSAFE
AS $$ SELECT clock_timestamp() + (SELECT shift FROM desk.clock) $$;
"""


class Row(DeclarativeBase):
    """What the tests have mapped."""


class Book(Row):
    __tablename__ = "books"
    __table_args__ = ({"schema": "desk"},)
    id: Mapped[str] = mapped_column(primary_key=True)
    title: Mapped[str]
    state: Mapped[str] = mapped_column(default="in")
    version: Mapped[int] = mapped_column(Integer, default=1)


class Loan(Row):
    __tablename__ = "loans"
    __table_args__ = ({"schema": "desk"},)
    id: Mapped[str] = mapped_column(primary_key=True)
    book: Mapped[str] = mapped_column(ForeignKey("desk.books.id"))


@dataclass(slots=True)
class World:
    """Everything outside: what was done there, under which key, and what goes wrong next."""

    done: list[tuple[str, Any]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    troubles: list[Exception] = field(default_factory=list)
    meanwhile: Callable[[], object] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def do(self, what: str, about: Any, *, key: str | None = None) -> Any:
        """Does it, once per ``key``, or runs into the next trouble that was laid down."""
        if self.meanwhile is not None:
            self.meanwhile()
        with self.lock:
            if self.troubles:
                raise self.troubles.pop(0)
            if key is not None and key in self.answers:
                return self.answers[key]
            self.done.append((what, about))
            answer = {"number": len(self.done)}
            if key is not None:
                self.answers[key] = answer
            return answer


Face = Callable[..., Any]


@dataclass(slots=True)
class Play:
    """What the faces do for one case; what is not laid down does nothing."""

    perform: Face | None = None
    restore: Face | None = None
    drift: Face | None = None
    performed: int = 0


class Handlers:
    """The handlers of the catalog, as plain functions."""

    def __init__(self, world: World, plays: Mapping[str, Play]) -> None:
        self.world = world
        self.plays = plays

    def bound(self) -> dict[str, Handler]:
        letter = Handler(perform=self.send)
        played = Handler(perform=self.play, restore=self.unplay, drift=self.play_drift)
        return {
            "send_letter": letter,
            "remind": letter,
            "digest": letter,
            "refund": Handler(perform=self.refund, restore=self.charge_again),
            "delete_book": Handler(
                perform=self.delete, restore=self.undelete, drift=self.delete_drift
            ),
            "set_state": Handler(
                perform=self.set_state, restore=self.unset_state, drift=self.state_drift
            ),
            "rename_book": Handler(perform=self.rename, restore=self.unrename),
            "act": played,
            "act_over_limit": played,
            "act_standing": played,
            "deliver": played,
            "find_books": Handler(perform=self.find),
            "look": Handler(perform=self.play),
            "seek": Handler(perform=self.play),
        }

    def send(self, arguments, attempt):
        return self.world.do("letter", arguments.model_dump())

    def refund(self, arguments, attempt):
        return self.world.do("refund", arguments.amount, key=attempt.provider_key)

    def charge_again(self, original, attempt):
        about = (original.arguments.amount, original.result["number"])
        return self.world.do("charge", about, key=attempt.provider_key)

    def delete(self, session, arguments):
        book = book_of(session, arguments.book)
        loans = session.scalars(
            select(Loan).where(Loan.book == book.id).order_by(Loan.id).with_for_update()
        ).all()
        image = image_of(book)
        for loan in loans:
            session.delete(loan)
        session.delete(book)
        return Performed(
            result={"book": image, "loans": [loan.id for loan in loans]},
            affected=[
                Affected(kind="book", id=book.id, label=book.title),
                *(Affected(kind="loan", id=loan.id) for loan in loans),
            ],
            summary=f"{book.title} is deleted with {len(loans)} loans.",
        )

    def undelete(self, session, original):
        image = original.result["book"]
        session.add(Book(**image))
        session.flush()
        session.add_all(Loan(id=id_, book=image["id"]) for id_ in original.result["loans"])
        return Performed(affected=original.affected)

    def delete_drift(self, session, original):
        image = original.result["book"]
        twin = session.scalars(select(Book).where(Book.title == image["title"])).one_or_none()
        return [] if twin is None else [{"field": "title", "first": None, "now": twin.id}]

    def set_state(self, session, arguments):
        book = book_of(session, arguments.book)
        was = book.state
        book.state = arguments.state
        book.version += 1
        return Performed(
            result={"was": was, "version": book.version},
            affected=[Affected(kind="book", id=book.id, label=book.title)],
        )

    def unset_state(self, session, original):
        book = book_of(session, original.arguments.book)
        book.state = original.result["was"]
        book.version += 1
        return {"version": book.version}

    def state_drift(self, session, original):
        book = book_of(session, original.arguments.book)
        wanted = original.arguments.state
        if book.state == wanted:
            return []
        return [{"field": "state", "first": wanted, "now": book.state}]

    def rename(self, session, arguments):
        book = book_of(session, arguments.book)
        was = book.title
        book.title = arguments.title
        return {"was": was}

    def unrename(self, session, original):
        book_of(session, original.arguments.book).title = original.result["was"]

    def find(self, session, arguments):
        found = session.execute(
            text("SELECT id, title FROM desk.books WHERE title ILIKE :like ORDER BY id"),
            {"like": f"%{arguments.query}%"},
        )
        return [{"id": id_, "title": title} for id_, title in found]

    def play(self, *given):
        arguments = next(one for one in given if hasattr(one, "case"))
        play = self.plays[arguments.case]
        play.performed += 1
        return play.perform(*given) if play.perform else None

    def unplay(self, *given):
        original = next(one for one in given if hasattr(one, "arguments"))
        restore = self.plays[original.arguments.case].restore
        return restore(*given) if restore else None

    def play_drift(self, *given):
        original = next(one for one in given if hasattr(one, "arguments"))
        drift = self.plays[original.arguments.case].drift
        return drift(*given) if drift else []


def awaited(handler: Handler) -> Handler:
    """The same handler with every face an async one."""

    def turned(face: Face | None) -> Face | None:
        if face is None:
            return None

        async def later(*given: Any) -> Any:
            answer = face(*given)
            return await answer if inspect.isawaitable(answer) else answer

        return later

    perform = turned(handler.perform)
    assert perform is not None
    return Handler(perform=perform, restore=turned(handler.restore), drift=turned(handler.drift))


def book_of(session: Session, id_: str) -> Book:
    book = session.get(Book, id_, with_for_update=True, populate_existing=True)
    if book is None:
        known = session.scalars(select(Book.id).order_by(Book.id)).all()
        raise InvalidReference("book", id_, message="is no book of ours", permitted=known)
    return book


def image_of(book: Book) -> dict[str, Any]:
    return {name: getattr(book, name) for name in ("id", "title", "state", "version")}


@dataclass(slots=True)
class Pauses:
    """Where a call's pauses are counted instead of being waited."""

    seconds: list[float] = field(default_factory=list)
    meanwhile: Callable[[], object] | None = None

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if self.meanwhile is not None:
            self.meanwhile()


class Desk:
    """An app, what it works on, and what can be seen of both from outside."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.world = World()
        self.plays: dict[str, Play] = {}
        self._apps: list[Takeback] = []
        self.eye = psycopg.connect(url, autocommit=True)
        self.app = self.make_app()

    def make_app(
        self,
        *,
        url: str | None = None,
        tenant: str = "default",
        awaiting: bool = False,
        pauses: Callable[[float], None] | None = None,
        key_secret: str | None = None,
        without: Sequence[str] = (),
        changed: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
        **assembly: Any,
    ) -> Takeback:
        """An app of the catalog ``without`` some tools; ``awaiting``: with async handlers.

        ``changed`` says for a tool what of its row is another; the rest is the app's own.
        """
        bound = Handlers(self.world, self.plays).bound()
        handlers = {name: handler for name, handler in bound.items() if name not in without}
        if awaiting:
            handlers = {name: awaited(handler) for name, handler in handlers.items()}
        settings = Settings(database_url=url or self.url, tenant=tenant, key_secret=key_secret)
        tools = (tool for tool in CATALOG if tool.name not in without)
        catalog = Catalog(*(replace(tool, **changed.get(tool.name, {})) for tool in tools))
        app = Takeback(catalog, handlers=handlers, settings=settings, **assembly)
        if pauses is not None:
            app.context = replace(app.context, pause=pauses)
        self._apps.append(app)
        return app

    def close(self) -> None:
        for app in self._apps:
            app.close()
        self.eye.close()

    def case(
        self,
        name: str,
        perform: Face | None = None,
        *,
        restore: Face | None = None,
        drift: Face | None = None,
    ) -> Play:
        """Lays down what the faces do for a case."""
        self.plays[name] = Play(perform=perform, restore=restore, drift=drift)
        return self.plays[name]

    def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """What others can see: the answer to a statement, outside of every transaction."""
        cursor = self.eye.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, *parameters: Any) -> Any:
        """The one value that the statement answers with."""
        return self.rows(statement, *parameters)[0][0]

    def states(self) -> dict[str, str]:
        """The state of every intent by its ref, in the order in which they were recorded."""
        return dict(
            self.rows(
                """
                SELECT i.ref, i.state FROM takeback.intents AS i
                JOIN takeback.events AS e ON e.intent_id = i.id AND e.version = 1
                ORDER BY e.position
                """
            )
        )

    def tools(self) -> list[str]:
        """The tool of every intent, in the order in which they were recorded."""
        return [ref.rpartition("-")[0] for ref in self.states()]

    def state(self, ref: str | None) -> str:
        """The state of one intent."""
        return str(self.value("SELECT state FROM takeback.intents WHERE ref = %s", ref))

    def counts(self) -> dict[str, int]:
        """How many rows each table of the ledger has."""
        tables = ("intents", "events", "bodies")
        return {
            name: self.value(
                quoting.SQL("SELECT count(*) FROM takeback.{}")
                .format(quoting.Identifier(name))
                .as_string()
            )
            for name in tables
        }

    def is_empty(self) -> bool:
        """Whether nothing at all is recorded."""
        return not any(self.counts().values())

    def book(self, id_: str) -> tuple[Any, ...] | None:
        """A book's row, or None."""
        found = self.rows("SELECT id, title, state, version FROM desk.books WHERE id = %s", id_)
        return found[0] if found else None

    def loans(self, book: str) -> list[str]:
        """The loans of a book."""
        return [
            id_
            for (id_,) in self.rows("SELECT id FROM desk.loans WHERE book = %s ORDER BY id", book)
        ]

    def shift(self, span: timedelta) -> None:
        """Moves the database's clock on."""
        self.rows("UPDATE desk.clock SET shift = shift + %s", span)

    def work(self, app: Takeback | None = None, *, concurrency: int = 4) -> None:
        """Lets a worker do everything that is due."""
        sleeping = threading.Event()
        worker = (app or self.app).worker(
            name="w1",
            sleep=sleeping.wait,
            stopping=sleeping.is_set,
            pace=Pace(concurrency=concurrency),
        )
        worker.run(drain=True)

    def command(self, ref: str | None, command: Command) -> None:
        """Has something happen to an intent that no door of the client leads to."""
        with self.app.context.database.transaction() as tx:
            id_ = self.app.show(ref or "", tx=tx.session).entry.intent.id
            (taken,) = lock(tx, self.app.settings.tenant, [id_])
            append(tx, [Change(taken=taken, events=decide(taken.intent, command, taken.now))])

    def wait_until(self, met: Callable[[], object]) -> None:
        """Waits until ``met`` answers with something, looking again and again."""
        pause = threading.Event()
        ends = time.monotonic() + PATIENCE_S
        while not met():
            assert time.monotonic() < ends, "waited in vain"
            pause.wait(POLL_S)

    def wait_for_lock(self, pid: int) -> None:
        """Waits until the backend ``pid`` waits for a lock."""
        self.wait_until(
            lambda: self.rows("SELECT 1 FROM pg_locks WHERE pid = %s AND NOT granted", pid)
        )


@contextmanager
def in_thread(work: Callable[[], Any]) -> Iterator[Sequence[Any]]:
    """Runs ``work`` beside the block; what it answered (or raised) is in the list afterwards."""
    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as problem:  # noqa: BLE001 the test looks at it
            answers.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield answers
    finally:
        thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the other thread hangs"
