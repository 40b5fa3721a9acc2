"""Handlers bind by name; what has no handler, or no row, is refused."""

import textwrap
import types
from typing import Any

import pytest

from tests.catalog.shop import CLOSE, SEARCH, WHOLE, Query, face, problems, registry


def module(source: str = "") -> types.ModuleType:
    """A handler module of that text."""
    made = types.ModuleType("shop.handlers")
    exec(textwrap.dedent(source), made.__dict__)
    return made


class Closer:
    def perform(self, session: Any, arguments: Any) -> str:
        return "performed"

    def restore(self, session: Any, original: Any) -> str:
        return "restored"


def test_a_plain_function_is_the_face_that_performs():
    handlers = module("def search_orders(session, arguments): ...")
    bound = registry(SEARCH, handlers=handlers)
    assert bound.tool("search_orders").handler.perform is handlers.search_orders


@pytest.mark.parametrize("given", [Closer, Closer()], ids=["class", "instance"])
def test_a_class_or_instance_has_the_faces_it_defines(given):
    handler = registry(CLOSE, handlers={"update_ticket": given}).tool("update_ticket").handler
    assert handler.perform(None, None) == "performed"
    assert handler.restore is not None
    assert handler.restore(None, None) == "restored"
    assert (handler.find, handler.preview, handler.drift) == (None, None, None)


def test_a_module_may_hold_classes_of_what_it_binds_and_everything_private_or_imported():
    handlers = module(
        """
        from datetime import datetime
        from os.path import join
        from pydantic import BaseModel
        from takeback.model.handler import Handler

        LIMIT = 8

        class Closing:
            def perform(self, session, arguments): ...
            def restore(self, session, original): ...

        class Mine(Closing):
            pass

        class Query(BaseModel):
            pass

        def _helper(): ...

        def search_orders(session, arguments): ...

        update_ticket = Mine()
        """
    )
    assert len(registry(CLOSE, SEARCH, handlers=handlers)) == 2


def test_an_object_may_hold_them():
    class Handlers:
        def __init__(self) -> None:
            self.connection = object()

        update_ticket = WHOLE

        def search_orders(self, session: Any, arguments: Any) -> object:
            return self.connection

    handlers = Handlers()
    bound = registry(CLOSE, SEARCH, handlers=handlers)
    assert bound.tool("search_orders").handler.perform(None, None) is handlers.connection


def test_a_row_without_a_handler_is_refused():
    (line,) = problems(SEARCH, CLOSE, handlers={"search_orders": face})
    assert line == (
        "row 'update_ticket': it has no handler; fix: define update_ticket in the mapping"
    )
    (line,) = problems(SEARCH, handlers=module())
    assert "the module shop.handlers" in line


@pytest.mark.parametrize(
    "stray",
    [
        "search_order = Handler(perform=search_orders)",
        "def search_order(session, arguments): ...",
        "async def search_order(session, arguments): ...",
        "class search_order(Face): ...",
        "search_order = Face()",
    ],
)
def test_a_handler_without_a_row_is_refused_whatever_holds_it(stray):
    handlers = module(
        f"""
        from takeback.model.handler import Handler

        class _Face:
            def perform(self, session, arguments): ...

        def search_orders(session, arguments): ...

        {stray.replace("Face", "_Face")}
        """
    )
    both = {"search_orders": face, "search_order": handlers.search_order}
    for given in (handlers, both, types.SimpleNamespace(**both)):
        (line,) = problems(SEARCH, handlers=given)
        assert line.startswith("handler 'search_order': no row has this name")
        assert "did you mean 'search_orders'?" in line


def test_what_a_module_offers_by_name_is_all_that_it_offers():
    text = "def search_orders(s, a): ...\ndef helper(): ...\n__all__ = ['search_orders'{}]"
    assert len(registry(SEARCH, handlers=module(text.format("")))) == 1
    (line,) = problems(SEARCH, handlers=module(text.format(", 'helper'")))
    assert line.startswith("handler 'helper'")


class Needy:
    def __init__(self, connection: object) -> None:
        self.connection = connection

    def perform(self) -> None: ...


@pytest.mark.parametrize(
    "given, found",
    [
        (5, "is no handler"),
        (None, "is no handler"),
        (Query, "is no handler"),
        (Needy, "can't be made without arguments"),
        (types.SimpleNamespace(perform=5), "the face 'perform' of its handler can't be called"),
        (
            types.SimpleNamespace(perform=face, restore=5),
            "the face 'restore' of its handler can't be called",
        ),
    ],
    ids=["number", "nothing", "model", "needy", "perform", "restore"],
)
def test_what_can_perform_nothing_is_refused(given, found):
    (line,) = problems(SEARCH, handlers={"search_orders": given})
    assert found in line
