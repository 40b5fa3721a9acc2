"""docs/errors.md lists every code with what a caller may rely on, and shows answers as they are."""

import os
from contextlib import ExitStack
from typing import Any

import pytest

from takeback import Settings, Takeback
from takeback.model import errors
from takeback.model.code import CODES, Where
from takeback.testing import MailServer
from takeback_shop import handlers
from takeback_shop.catalog import CATALOG
from tests.database import Databases
from tests.docs import code, errors_page
from tests.docs.page import read, unquoted
from tests.docs.refusal import ANSWERS, World, steady

NAME = "docs/errors.md"
WRITE = os.environ.get("TAKEBACK_TEST_WRITE_PAGES") == "1"


@pytest.fixture(scope="module")
def documents(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Each answer of the page, made on a shop as good as new."""
    made: dict[str, Any] = {}
    for name, example in ANSWERS.items():
        with ExitStack() as closing, pytest.MonkeyPatch.context() as environment:
            mail = closing.enter_context(MailServer())
            environment.setenv("SHOP_SMTP_URL", mail.url)
            environment.setenv("SHOP_STATE_DIR", str(tmp_path_factory.mktemp("shop")))
            url = databases.clean()
            app = Takeback(CATALOG, handlers=handlers, settings=Settings(database_url=url))
            closing.callback(app.close)
            made[name] = example.make(World(app=app, url=url, mail=mail)).to_dict()
    return made


def test_the_page_is_what_the_generator_makes(documents):
    """The codes and an example of each; `make pages` writes them."""
    page = read(NAME)
    shown = {name: steady(document) for name, document in documents.items()}
    made = errors_page.rewritten(page.text, shown)
    if WRITE:
        page.path.write_text(made)
    assert read(NAME).text == made, "run `make pages`"


def test_every_code_that_is_answered_has_an_example(documents):
    """S2.15: class and repeat are fields of the answer, and those of the list."""
    shown = {document["error"]["code"] for document in documents.values() if "error" in document}
    assert shown == {one.name for one in errors_page.answered()}
    for document in documents.values():
        if "error" not in document:
            continue
        one = CODES[document["error"]["code"]]
        stays = document.get("ref") is not None and "again" not in document
        expected = one.settled_class if stays else one.class_
        assert document["error"]["class"] == expected.value
        assert document["effect"] in one.effects
        assert document["repeat_can_succeed"] is (one.repeat_can_succeed and not stays)


def test_each_example_says_its_own_code(documents):
    for name, document in documents.items():
        if name in CODES:
            assert document["error"]["code"] == name


def test_the_source_answers_with_codes_of_the_list_and_no_other():
    listed = {one.name for one in errors_page.answered()}
    assert code.of_refusals() <= listed
    assert listed - code.of_refusals() == {"invalid_argument"} - code.of_refusals()


def test_every_exception_has_a_code_of_the_list():
    assert set(code.of_exceptions()) <= set(CODES)


def test_every_code_that_is_raised_has_an_exception():
    raised = {one.name for one in CODES.values() if Where.RAISED in one.where}
    assert raised <= set(code.of_exceptions())
    assert errors.RetryTransaction.code in raised


def test_every_code_of_a_violation_is_told_and_no_other():
    table = read(NAME).table("violation", "meaning")
    assert {unquoted(cell) for cell in table.column("violation")} == code.of_violations()


def test_every_code_of_the_command_line_is_in_the_list():
    typed = {one.name for one in CODES.values() if Where.COMMAND_LINE in one.where}
    assert code.of_the_command_line() - set(CODES) == set()
    only = {one.name for one in CODES.values() if one.where == (Where.COMMAND_LINE,)}
    assert only <= code.of_the_command_line() <= typed


def test_all_corners_of_effect_and_repeat_can_be_answered():
    """S2.2: (effect, repeat can succeed); in doubt is the one with no error."""
    assert errors_page.corners() == {
        ("none", True),
        ("none", False),
        ("unknown", True),
        ("unknown", False),
        ("committed", False),
    }
