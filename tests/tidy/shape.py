"""How large things are, what they are called, and what is written at their head."""

import ast
import re
import tokenize
from collections.abc import Iterator
from io import StringIO
from pathlib import PurePosixPath

from tests.tidy.source import ROOTS, Finding, Rule, Sources, functions

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
TEST_FILE_LINES_MAX = 700
# They say that something is in there, not what.
EMPTY_NAME = re.compile(r"(base|common|core|misc|(helper|manager|service|util)s?)(\.py)?")
BANNER = re.compile(r"^\s*#\s*(?:[-=#*~_─═]\s?){5,}")


def modules_are_named_for_what_they_know(sources: Sources) -> Iterator[Finding]:
    for source in sources:
        if source.is_code:
            for part in PurePosixPath(source.path).parts:
                if EMPTY_NAME.fullmatch(part):
                    yield Finding(source.path, 1, f"{part!r} names nothing; say what it knows")


def functions_are_short(sources: Sources) -> Iterator[Finding]:
    for source in sources:
        if source.is_code:
            for function in functions(source.tree):
                lines = (function.end_lineno or 0) - function.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    what = f"{function.name} has {lines} lines, {FUNCTION_LINES_MAX} are the limit"
                    yield Finding(source.path, function.lineno, what)


def files_are_short(sources: Sources) -> Iterator[Finding]:
    for source in sources:
        if source.is_code or source.is_test:
            lines_max = TEST_FILE_LINES_MAX if source.is_test else FILE_LINES_MAX
            lines = source.text.count("\n")
            if lines > lines_max:
                yield Finding(source.path, lines, f"{lines} lines, {lines_max} are the limit")


def modules_begin_with_what_they_know(sources: Sources) -> Iterator[Finding]:
    """An empty file, such as the mark of a package, has nothing to say."""
    for source in sources:
        if (source.is_code or source.is_test) and source.text.strip():
            docstring = ast.get_docstring(source.tree)
            if not docstring:
                yield Finding(source.path, 1, "no docstring")
            elif not docstring.split("\n\n")[0].endswith((".", ":", "?", "!")):
                yield Finding(source.path, 1, "the docstring begins with no sentence")


def public_names_of_the_library_have_docstrings(sources: Sources) -> Iterator[Finding]:
    for source in sources:
        if source.is_engine:
            for node in source.tree.body:
                if (
                    isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                    and not node.name.startswith("_")
                    and not ast.get_docstring(node)
                ):
                    yield Finding(source.path, node.lineno, f"{node.name} has no docstring")


def pure_functions_have_an_example(sources: Sources) -> Iterator[Finding]:
    for source in sources:
        if source.path.startswith("engine/takeback/model/") and source.path.endswith(".py"):
            public = [
                node.name
                for node in source.tree.body
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
            ]
            if public and ">>> " not in source.text:
                yield Finding(source.path, 1, f"none of {', '.join(public)} has a doctest")


def packages_are_marked(sources: Sources) -> Iterator[Finding]:
    """Without __init__.py a folder is a namespace: imported, but left out of every check."""
    paths = {source.path for source in sources}
    folders = {str(PurePosixPath(source.path).parent) for source in sources if source.is_code}
    for folder in sorted(folders - ROOTS.keys()):
        if f"{folder}/__init__.py" not in paths:
            yield Finding(folder, 1, "no __init__.py")
    for root, package in ROOTS.items():
        package_path = f"{root}/{package}"
        if package_path in folders and f"{package_path}/py.typed" not in paths:
            yield Finding(package_path, 1, "no py.typed")


def the_library_silences_no_type_error(sources: Sources) -> Iterator[Finding]:
    for source in sources:
        if source.is_engine:
            for line, comment in comments(source.text):
                if re.search(r"type:\s*ignore", comment):
                    yield Finding(source.path, line, "a type error is silenced")


def no_banner_divides_a_file(sources: Sources) -> Iterator[Finding]:
    for source in sources:
        if source.is_code or source.is_test:
            for line, comment in comments(source.text):
                if BANNER.match(comment):
                    yield Finding(source.path, line, "a banner: two files, or none")


def comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


_LONG_FUNCTION = "def f():\n" + "    x = 1\n" * FUNCTION_LINES_MAX
_LONG_FILE = "x = 1\n" * (FILE_LINES_MAX + 1)
_MODEL = "engine/takeback/model/a.py"

RULES = (
    Rule(
        find=modules_are_named_for_what_they_know,
        bad=[{"engine/takeback/utils.py": ""}, {"workers/takeback_workers/core/a.py": ""}],
        good=[{"engine/takeback/ledger/pool.py": ""}, {"tests/services.py": ""}],
    ),
    Rule(
        find=functions_are_short,
        bad=[{"examples/takeback_shop/a.py": _LONG_FUNCTION}],
        good=[{"examples/takeback_shop/a.py": _LONG_FUNCTION.replace("    x = 1\n", "", 1)}],
    ),
    Rule(
        find=files_are_short,
        bad=[{_MODEL: _LONG_FILE}, {"tests/test_a.py": _LONG_FILE * 2}],
        good=[{"tests/test_a.py": _LONG_FILE}],
    ),
    Rule(
        find=modules_begin_with_what_they_know,
        bad=[{_MODEL: "x = 1\n"}, {_MODEL: '"""Keys"""\n'}],
        good=[{_MODEL: '"""Keys of calls."""\n'}, {"engine/takeback/model/__init__.py": ""}],
    ),
    Rule(
        find=public_names_of_the_library_have_docstrings,
        bad=[{_MODEL: "def f():\n    pass\n"}, {_MODEL: "class A:\n    pass\n"}],
        good=[{_MODEL: 'def _f():\n    pass\ndef g():\n    """Do."""\n'}],
    ),
    Rule(
        find=pure_functions_have_an_example,
        bad=[{_MODEL: "def f():\n    pass\n"}],
        good=[
            {_MODEL: 'def f():\n    """Give one.\n\n    >>> f()\n    1\n    """\n'},
            {"engine/takeback/client/a.py": "def f():\n    pass\n"},
        ],
    ),
    Rule(
        find=packages_are_marked,
        bad=[
            {"engine/takeback/a/b.py": ""},
            {"engine/takeback/__init__.py": ""},
        ],
        good=[{"engine/takeback/__init__.py": "", "engine/takeback/py.typed": ""}],
    ),
    Rule(
        find=the_library_silences_no_type_error,
        bad=[{_MODEL: "x: int = ''  # type: ignore[assignment]\n"}],
        good=[{_MODEL: "x = '# type: ignore'\n"}],
    ),
    Rule(
        find=no_banner_divides_a_file,
        bad=[{_MODEL: "# ---------- helpers\n"}, {_MODEL: "# = = = = =\n"}],
        good=[{_MODEL: "# -- a dash or two\n"}],
    ),
)
