"""No page names a verb, an option, a method, a file or a make target that does not exist."""

import importlib
import re

import psycopg
import pytest
import typer

from takeback import Takeback
from tests.docs.command_line import parse, unknown
from tests.docs.page import ROOT, Page, pages

PAGES = pages()
COMMANDS = [
    (page, line.removeprefix("    "))
    for page in PAGES
    for line in [
        *re.findall(r"^ {4}takeback .*$", page.unfenced, re.MULTILINE),
        *(line for b in page.blocks if b.language == "console" for line in b.text.splitlines()),
    ]
    if line.removeprefix("    ").startswith("takeback ") and " [" not in line  # a synopsis
]
FOLDERS = ("engine/", "workers/", "migrations/", "examples/", "tests/", "docs/")


def of_page(value: Page | str) -> str:
    return value.name if isinstance(value, Page) else value


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=of_page)
def test_a_command_is_one_that_the_command_line_takes(page: Page, line: str):
    assert parse(line)


def test_a_command_that_is_none_is_noticed():
    for wrong in ("takeback shew", "takeback list --wide", "takeback restore"):
        with pytest.raises(typer.TyperException):
            parse(wrong)


@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_verbs_and_options_in_sentences_exist(page: Page):
    spans = [span for span in page.spans if span.startswith("takeback ")]
    assert {span: unknown(span) for span in spans if unknown(span)} == {}


@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_methods_of_an_app_in_sentences_exist(page: Page):
    named = {name for span in page.spans for name in re.findall(r"\bapp\.(\w+)", span)}
    # An attribute of each app, and the README's file of that name.
    assert {name for name in named if not hasattr(Takeback, name)} <= {"catalog", "py"}


@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_targets_of_make_in_sentences_exist(page: Page):
    targets = set(re.findall(r"^(\w+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = [word for span in page.spans for word in re.findall(r"^make (\w+)", span)]
    assert set(named) <= targets


@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_files_in_sentences_exist(page: Page):
    named = [span.partition("::")[0] for span in page.spans if span.startswith(FOLDERS)]
    assert [name for name in named if " " not in name and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_dotted_names_in_sentences_are_modules_tables_or_functions(page: Page, database_url: str):
    spans = {span.partition("(")[0] for span in page.spans}
    named = {span for span in spans if re.fullmatch(r"takeback(_\w+)?\.[\w.]+", span)}
    with psycopg.connect(database_url) as tx:
        found = tx.execute(
            "SELECT 'takeback.' || relname FROM pg_class"
            " WHERE relnamespace = 'takeback'::regnamespace"
            " UNION SELECT 'takeback.' || proname FROM pg_proc"
            " WHERE pronamespace = 'takeback'::regnamespace"
        ).fetchall()
    # Settings of a transaction, which name the intent on whose behalf rows change.
    of_the_database = {name for (name,) in found} | {"takeback.tenant", "takeback.intent"}
    assert [name for name in sorted(named - of_the_database) if not importable(name)] == []


def importable(name: str) -> bool:
    """
    >>> importable("takeback.declare.Tool"), importable("takeback.declare.Toll")
    (True, False)
    """
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        try:
            for part in parts[end:]:
                found = getattr(found, part)
        except AttributeError:
            return False
        return True
    return False
