"""A library in Kyiv and Kyoto: arguments, values, ids and words that are all outside ASCII."""

# ruff: noqa: PLC2401 - names outside ASCII are what this catalog is for

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from takeback.declare import OMIT, SILENT, Catalog, Currency, Email, Instant, Money, Read
from takeback.testing.recovery.subject import Subject, handlers_for, row

ReaderId = Annotated[str, StringConstraints(pattern=r"^Ч-[0-9]{3}$")]


class Shelf(StrEnum):
    """Where a book stands; named for those who read no Japanese."""

    ПОЕЗІЯ = "詩歌"
    ІСТОРІЯ = "歴史"
    КУЛІНАРІЯ = "料理"


class Book(BaseModel):
    """One book of a loan."""

    назва: str = Field(min_length=1, max_length=60)
    стан: Literal["новий", "потертий", "пошкоджений"]
    полиця: Shelf


class Lend(BaseModel):
    """A loan."""

    читач: ReaderId
    книги: list[Book] = Field(min_length=1, max_length=5)
    до: Instant
    доставка: Literal["самовивіз", "кур'єр", "поштомат"]


class Fine(BaseModel):
    """A fine."""

    читач: ReaderId
    сума: Money
    валюта: Currency
    причина: Literal["запізнення", "втрата_книги", "шум_у_залі"]


class Write(BaseModel):
    """A letter."""

    кому: Email
    тема: Literal["нагадування", "подяка", "запрошення"]
    текст: str = Field(min_length=1, max_length=120)


class Seek(BaseModel):
    """A search."""

    запит: str = Field(min_length=1)
    мова: Literal["українська", "日本語", "ελληνικά"]


CATALOG = Catalog(
    row("lend_books", Lend, "Видає книги.", triggers=("видати", "позичити", "borrow")),
    row("fine_reader", Fine, "Призначає штраф.", triggers=("штраф", "penalty")),
    row("write_to_reader", Write, "Пише читачеві.", triggers=("лист", "mail")),
    row(
        "seek_books",
        Seek,
        "Шукає книги.",
        effect=Read(on_forbidden=OMIT),
        tier=SILENT,
        triggers=("знайти",),
    ),
)


def library() -> Subject:
    """The library, and what is wanted of it."""
    return Subject(
        name="library",
        catalog=CATALOG,
        handlers=handlers_for(CATALOG),
        wanted=(
            (
                "lend_books",
                {
                    "читач": "Ч-042",
                    "книги": [
                        {"назва": "Кобзар", "стан": "новий", "полиця": "詩歌"},
                        {"назва": "方丈記", "стан": "потертий", "полиця": "歴史"},
                    ],
                    "до": "2026-12-31T18:00:00Z",
                    "доставка": "поштомат",
                },
            ),
            (
                "fine_reader",
                {"читач": "Ч-007", "сума": 15000, "валюта": "UAH", "причина": "втрата_книги"},
            ),
            (
                "write_to_reader",
                {
                    "кому": "оля@приклад.укр",
                    "тема": "запрошення",
                    "текст": "Чекаємо на вас у неділю",
                },
            ),
            ("seek_books", {"запит": "хоку", "мова": "日本語"}),
        ),
        near={
            "новий": ("свіжий", "ідеальний"),
            "потертий": ("вживаний", "старий"),
            "поштомат": ("скринька", "відділення"),
            "втрата_книги": ("загубив", "зникла"),
            "запрошення": ("запросини", "квиток"),
            "詩歌": ("俳句", "和歌"),
            "歴史": ("過去", "昔話"),
            "日本語": ("国語", "和文"),
            "UAH": ("гривня", "грн"),
        },
        foreign={
            "новий": ("new", "新しい"),
            "потертий": ("worn", "gebraucht"),
            "поштомат": ("parcel locker", "Packstation"),
            "втрата_книги": ("lost book", "紛失"),
            "запрошення": ("invitation", "招待"),
            "詩歌": ("poetry", "Lyrik"),
            "歴史": ("history", "Geschichte"),
            "日本語": ("Japanese", "японська"),
        },
        misnamed={
            "lend_books": ("borrow_books", "видати_книги"),
            "fine_reader": ("penalty_reader", "штраф"),
            "write_to_reader": ("mail_reader", "лист_reader"),
            "seek_books": ("search_books", "знайти"),
        },
    )
