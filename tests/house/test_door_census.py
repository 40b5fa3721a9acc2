"""A census of the doors: no code turns an answer into text or JSON that is not registered.

Read are the sources. Whoever knows answers (imports the envelope, an app, or what is made of
them) and serialises anything has to be a site of a door, or stand below with what it serialises
instead.
"""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import takeback
import takeback_shop
import takeback_workers
from takeback.model.door import OPENINGS, Door

PACKAGES = (takeback, takeback_shop, takeback_workers)

KNOWS_ANSWERS = (
    "takeback.app",
    "takeback.desk",
    "takeback.client",
    "takeback.model.envelope",
    "takeback.model.finding",
    "takeback.model.payload",
    "takeback.cli.door",
    "takeback.cli.sheet",
)
"""Who imports one of these, or the class ``Envelope`` or ``Takeback``, may hold an answer."""

SERIALISERS = frozenset(
    {
        "to_json", "to_dict", "dumps", "dump", "dump_json", "model_dump_json", "document",
        "disclose", "answer_block", "hand_over", "hand_over_all", "hand_over_lines",
        "hand_over_full",
    }
)  # fmt: skip

NO_ANSWERS = {
    # The envelope itself, and the hook.
    "takeback.model.envelope:Envelope.to_dict": "the lean document",
    "takeback.model.envelope:Envelope.to_json": "the lean document",
    "takeback.client.handing:hand_over_all": "the hook",
    "takeback.client.handing:hand_over_full": "the hook",
    "takeback.client.handing:_say": "the sizes, into the log",
    # What is stored, sent to the database, or shown of a value.
    "takeback.client.body:_dump": "a stored body",
    "takeback.client.face:_spoken": "what a read's handler answered, on its way in",
    "takeback.client.refusing:refuse_arguments": "one violation",
    "takeback.cli.sheet:_value": "one value of a line",
    "takeback.cli.sheet:_typed": "the arguments of a next call",
    # Documents of verbs that answer nothing about a call.
    "takeback.cli.failure:Failure.say": "a failure of the command itself",
    "takeback.cli.looking:events": "the log",
    "takeback.cli.looking:_print": "the log",
    "takeback.cli.looking:_show_fault": "a fault",
    "takeback.cli.declaring:check": "a declaration file",
    "takeback.cli.declaring:list_rows": "the catalog",
    "takeback.cli.declaring:show_row": "a row of the catalog",
    "takeback.cli.doctor:_told": "settings and health",
    "takeback.cli.doctor:_brakes": "a freeze",
    "takeback.cli.proving:migrate": "revisions",
    "takeback.cli.proving:_sound": "a verdict on the log",
    "takeback.cli.working:_ended": "what a worker has done",
    "takeback.cli.working:ticker": "what a ticker has done",
    "takeback.cli.connecting:list_lanes": "what goes through connectors",
    "takeback.cli.connecting:resume": "what was paused",
    "takeback.cli.braking:freeze": "what stands still",
    "takeback.cli.braking:thaw": "what goes on",
    # An app, which does as it likes with the lean answers that it was handed.
    "takeback_shop.telling:JsonTeller.end": "the story of the demo",
    "takeback_shop.telling:JsonTeller.fail": "why there is no story",
    "takeback_shop.telling:_step": "a lean answer in that story",
    # The recovery harness, whose caller reads the lean answers that it was handed.
    "takeback.testing.recovery.trial:Trial._told": "a lean answer, for the caller on trial",
    "takeback.testing.recovery.trial:Trial._remembered": "what the caller on trial has seen",
    "takeback.bench.recovery:_document": "a score",
    "takeback.bench.recovery:main": "the scores",
}
"""Functions that serialise something else, and what. Look twice before you add one."""


def sources() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        top = Path(package.__file__ or "").parent
        for path in sorted(top.rglob("*.py")):
            name = ".".join([package.__name__, *path.relative_to(top).with_suffix("").parts])
            yield name.removesuffix(".__init__"), ast.parse(path.read_text())


def knows_answers(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            if any(name.startswith(KNOWS_ANSWERS) for name in names):
                return True
            if {"takeback.Envelope", "takeback.Takeback", "takeback.Shown"} & names:
                return True
    return False


def serialising(module: str, tree: ast.Module) -> dict[str, set[str]]:
    """The functions that serialise, by ``module:Class.function``, and the calls that do."""
    found: dict[str, set[str]] = {}

    def visit(node: ast.AST, path: tuple[str, ...]) -> None:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            path = (*path, node.name)
        elif isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else None
            name = called.id if isinstance(called, ast.Name) else name
            if name in SERIALISERS:
                found.setdefault(f"{module}:{'.'.join(path)}", set()).add(name)
        for child in ast.iter_child_nodes(node):
            visit(child, path)

    visit(tree, ())
    return found


def unregistered(module: str, tree: ast.Module) -> dict[str, set[str]]:
    own = {"takeback.model.envelope", "takeback.client.handing"}
    if module not in own and not knows_answers(tree):
        return {}
    registered = {site for opening in OPENINGS.values() for site in opening.sites}
    return {
        place: calls
        for place, calls in serialising(module, tree).items()
        if place not in registered and place not in NO_ANSWERS
    }


def test_whoever_serialises_an_answer_is_registered():
    """S3.6: a new place that serialises an answer fails here until it is a door."""
    found: dict[str, set[str]] = {}
    for module, tree in sources():
        found |= unregistered(module, tree)
    assert found == {}, "register a door in takeback.model.door, and hand over there"


PLANTED = {
    "json": "import json\nfrom takeback import Envelope\n"
    "def send(answer: Envelope): return json.dumps(dict(answer))",
    "to_dict": "from takeback.app import Takeback\ndef f(app): return app.status('x').to_dict()",
    "document": "from takeback.cli.door import door_of\n"
    "def verb(context): door_of(context).voice.document({})",
    "disclose": "from takeback import Takeback\ndef f(answer): return answer.full.disclose(D)",
    "method": "from takeback.client.looking import show\n"
    "class Tool:\n async def run(self): return self.answer.to_json()",
    "hook": "from takeback.client.handing import hand_over\ndef f(a): return hand_over(a, 'mcp')",
    "pydantic": "from takeback.model.payload import Full\ndef f(x): return A(Any).dump_json(x)",
}


@pytest.mark.parametrize("name", list(PLANTED))
def test_a_planted_door_is_found(name: str):
    """S3.6: shown failing."""
    planted = ast.parse(PLANTED[name])
    (place,) = unregistered("takeback.planted", planted)
    assert place.startswith("takeback.planted:")


def test_nothing_is_listed_that_is_not_there():
    there: set[str] = set()
    for module, tree in sources():
        there |= serialising(module, tree).keys()
    assert set(NO_ANSWERS) <= there


@pytest.mark.parametrize("door", list(Door))
def test_every_site_of_a_door_exists_and_goes_through_the_hook(door: Door):
    """S3.2: one hook hands every answer over."""
    for site in OPENINGS[door].sites:
        module, _, path = site.partition(":")
        target = importlib.import_module(module)
        for name in path.split("."):
            target = getattr(target, name)
        assert callable(target)
        tree = ast.parse(Path(importlib.import_module(module).__file__ or "").read_text())
        calls = serialising(module, tree)[site]
        assert any(call.startswith("hand_over") for call in calls), f"{site} skips the hook"


def test_every_method_of_an_app_that_answers_is_a_door():
    """S3.6: a method that answers with an envelope hands it over, or awaits one that does."""
    registered = {site for opening in OPENINGS.values() for site in opening.sites}
    for module, class_ in (("takeback.app", "Takeback"), ("takeback.desk", "Desk")):
        tree = ast.parse(Path(importlib.import_module(module).__file__ or "").read_text())
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            if node.returns is not None and "Envelope" in ast.unparse(node.returns):
                assert f"{module}:{class_}.{node.name}" in registered
