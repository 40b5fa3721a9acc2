"""docs/python.md names everything that is public, and every field of what it lays out."""

import ast
import dataclasses
import inspect
import re

import pytest

import takeback
from takeback import Attempt, Original, Performed, Takeback, declare, records
from takeback.client import amendment, calling, refusing, restoring
from takeback.declare import (
    Affects,
    Approval,
    Breaker,
    Connector,
    Key,
    Limit,
    Local,
    Read,
    Remote,
    Tool,
    Wording,
)
from takeback.model import envelope, finding
from tests.docs.page import ROOT, read, unquoted

PAGE = read("docs/python.md")
TABLES = {unquoted(table.header[0]): table for table in PAGE.tables}
CLASSES = [
    Affects, Approval, Attempt, Breaker, Connector, Key, Limit, Local, Original, Performed, Read,
    Remote, Tool, Wording,
]  # fmt: skip
SURFACE = {
    f"{module.__name__}.{name}"
    for module in (takeback, declare, records)
    for name in module.__all__
}


def names_in(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


@pytest.mark.parametrize("name", sorted(SURFACE))
def test_every_public_name_is_told(name: str):
    word = name.rpartition(".")[2]
    assert re.search(rf"`[^`\n]*\b{word}\b[^`\n]*`", PAGE.prose), f"{name} is not on the page"


@pytest.mark.parametrize("name", sorted(SURFACE))
def test_every_public_name_is_used_in_the_typed_example(name: str):
    tree = ast.parse((ROOT / "tests/typing/api.py").read_text())
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert name.rpartition(".")[2] in used


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_each_field_of_a_class_is_told_and_no_other(kind: type):
    told = [
        name
        for cell in TABLES[kind.__name__].column(f"`{kind.__name__}`")
        for name in names_in(cell)
    ]
    assert told == [field.name for field in dataclasses.fields(kind)]


@pytest.mark.parametrize(
    "kind",
    [one for one in CLASSES if "default" in TABLES[one.__name__].header],
    ids=lambda kind: kind.__name__,
)
def test_each_default_is_told_as_it_is(kind: type):
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for row in TABLES[kind.__name__].rows:
        (name,) = names_in(row[0])
        assert meant(row[1]) == default_of(kind, fields[name]), f"{kind.__name__}.{name}"


def meant(cell: str) -> object:
    """What a cell says: `none` is None or empty, words in backticks are names of ``declare``."""
    if cell in ("none", "required"):
        return cell
    if cell.startswith('"'):
        return cell.strip('"')
    if cell in ("true", "false"):
        return cell == "true"
    return eval(unquoted(cell), vars(declare).copy())


def default_of(kind: type, field: dataclasses.Field) -> object:
    if field.name in ("upstream", "on_forbidden"):
        return "required"  # None is refused when the app is built
    if field.default is not dataclasses.MISSING:
        return "none" if field.default is None or field.default == () else field.default
    return "none" if field.default_factory is not dataclasses.MISSING else "required"


def test_every_method_of_an_app_is_told_and_every_argument_of_a_call():
    public = {name for name, _ in inspect.getmembers(Takeback) if not name.startswith("_")}
    told = {name for span in PAGE.spans for name in re.findall(r"app\.(\w+)", span)}
    # What the rooms below are handed is nobody's to use.
    assert public - told <= {"context", "registry"}
    call = TABLES["argument"]
    arguments = inspect.signature(Takeback.call).parameters.keys() - {"self"}
    tables = [table for table in PAGE.tables if table.header == call.header]
    told_by_section = {table.section: [unquoted(row[0]) for row in table.rows] for table in tables}
    assert set(told_by_section["Calling a tool"]) == arguments
    made = inspect.signature(Takeback.__init__).parameters.keys() - {"self"}
    assert set(told_by_section["An app"]) == made


def test_every_field_of_an_envelope_is_told_and_no_other():
    told = {unquoted(cell) for cell in TABLES["field"].column("field")}
    assert told == written_fields()


def written_fields() -> set[str]:
    """What the code that composes envelopes puts into them: keys of documents, and extras."""
    found: set[str] = set()
    sources = (
        envelope.answer,
        envelope._affected,
        envelope._replayed,
        envelope._waits,
        envelope._failure,
        envelope.refusal,
        finding.found,
        finding._aggregates,
        restoring._already,
        amendment.said_of,
    )
    for source in sources:
        for node in ast.walk(ast.parse(inspect.getsource(source))):
            match node:
                case ast.Subscript(
                    value=ast.Name(id="document"), slice=ast.Constant(value=str(key))
                ):
                    found.add(key)
                case ast.Dict(keys=keys):
                    found |= {str(key.value) for key in keys if isinstance(key, ast.Constant)}
    for node in ast.walk(ast.parse(inspect.getsource(refusing) + inspect.getsource(calling))):
        match node:
            case ast.keyword(arg="extra", value=ast.Dict(keys=keys)):
                found |= {str(key.value) for key in keys if isinstance(key, ast.Constant)}
    within = {
        "became",
        "class",
        "code",
        "message",
        "retry_after_s",
        "violations",
        "next_call",
        "alternatives",
        "expires_at",
        "kind",
        "id",
        "label",
        "field",
        "first",
        "now",
    }
    return found - within - {"repeat_of"}
