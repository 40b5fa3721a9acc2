"""The tools of a small library, one for each kind of effect, key and answer."""

from typing import Literal

from pydantic import BaseModel

from takeback.declare import (
    BLIND,
    COMPENSATE,
    CONFLICT,
    DIFFERS,
    KEYED,
    OMIT,
    RUN,
    SAY_NO_ACCESS,
    WHILE_STANDING,
    Affects,
    Approval,
    Catalog,
    Currency,
    Key,
    Local,
    Money,
    Read,
    Remote,
    Text,
    Tool,
    Wording,
    days,
    hours,
    minutes,
    seconds,
    window,
)


class Letter(BaseModel):
    """A letter to a reader."""

    to: Text
    subject: Text
    note: Text = ""


class Refund(BaseModel):
    """Money given back."""

    charge: Text
    amount: Money
    currency: Currency
    reason: Literal["duplicate", "fraudulent", "requested"] = "requested"


class OneBook(BaseModel):
    """A book by its id."""

    book: Text


class BookState(BaseModel):
    """Where a book is put."""

    book: Text
    state: Literal["in", "out", "lost"]
    note: Text = ""


class Title(BaseModel):
    """What a book is called."""

    book: Text
    title: Text


class Case(BaseModel):
    """A case that a test plays, and something beside it."""

    case: Text
    note: Text = ""


class Who(BaseModel):
    """A reader."""

    who: Text


class Query(BaseModel):
    """What is looked for."""

    query: Text


HELD = Remote(window=seconds(60), upstream=BLIND)
AT_ONCE = Remote(upstream=BLIND, reversal=COMPENSATE)

CATALOG = Catalog(
    Tool(
        "send_letter",
        Letter,
        effect=HELD,
        description="Sends a letter.",
        key=("to", "subject"),
        on_difference=DIFFERS,
        affects=Affects(kind="letter", id="to"),
        wording=Wording(
            subject="Letter {subject!r} to {to}",
            scheduled="to {{{to}}} leaves at {until} unless taken back",
            done="has left",
            undo="cancels the letter before it leaves",
        ),
    ),
    Tool(
        "refund",
        Refund,
        effect=Remote(upstream=KEYED(ttl=hours(24)), reversal=COMPENSATE),
        description="Gives money back.",
        key=("charge", "amount", "currency"),
        on_difference=CONFLICT,
        approval=Approval(argument="amount", over=50_000),
        affects=Affects(kind="charge", id="charge"),
    ),
    Tool(
        "delete_book",
        OneBook,
        effect=Local(retention=days(30)),
        description="Deletes a book and its loans.",
        key=("book",),
    ),
    Tool(
        "set_state",
        BookState,
        effect=Local(repeats=WHILE_STANDING, quiet=minutes(10)),
        description="Says where a book is.",
        key=("book", "state"),
        on_difference=DIFFERS,
    ),
    Tool(
        "rename_book",
        Title,
        effect=Local(),
        description="Gives a book another title.",
        key=("book", "title"),
    ),
    Tool(
        "act",
        Case,
        effect=Local(),
        description="Does in the database what the case says.",
        key=("case",),
        on_difference=CONFLICT,
    ),
    Tool(
        "act_over_limit",
        Case,
        effect=Local(),
        description="Does what the case says once a person has approved it.",
        key=("case",),
        on_difference=CONFLICT,
        approval=Approval(),
    ),
    Tool(
        "act_standing",
        Case,
        effect=Local(repeats=WHILE_STANDING, quiet=minutes(10)),
        description="Brings about what the case says, as often as it has to be.",
        key=("case",),
        on_difference=DIFFERS,
    ),
    Tool(
        "deliver",
        Case,
        effect=AT_ONCE,
        description="Does in the world what the case says.",
        key=("case",),
        on_difference={"note": CONFLICT},
    ),
    Tool("remind", Who, effect=HELD, description="Reminds.", key=Key(("who",), scope=RUN)),
    Tool(
        "digest",
        Who,
        effect=HELD,
        description="Sends the news of the day.",
        key=Key(("who",), scope=window(hours(24))),
    ),
    Tool("find_books", Query, effect=Read(on_forbidden=OMIT), description="Finds books."),
    Tool(
        "look",
        Case,
        effect=Read(on_forbidden=SAY_NO_ACCESS),
        description="Looks at what the case says.",
    ),
    Tool(
        "seek",
        Case,
        effect=Read(on_forbidden=OMIT),
        description="Searches as the case says.",
    ),
)
