"""Every example in a docstring of the library does what it says."""

import doctest
import importlib
import importlib.util
from pathlib import Path

import pytest

PACKAGES = ("takeback", "takeback_workers", "takeback_migrations", "takeback_shop")
# What only an extra brings; a module that wants it is examined where it is installed.
EXTRAS = {"anthropic", "boto3", "dramatiq", "jinja2", "langchain", "mcp", "openai", "stripe"}
# Alembic runs these itself, inside an environment that it prepares.
MIGRATIONS = ("takeback_migrations.env", "takeback_migrations.versions")
# Whoever imports it starts it: it is dramatiq's program, and wants an app and a broker.
PROGRAMS = ("takeback_workers.actors",)


def modules() -> list[str]:
    """Found as files: one module that can't be imported is one failure, no end of the others."""
    found = []
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for root in map(Path, (spec and spec.submodule_search_locations) or ()):
            for path in sorted(root.rglob("*.py")):
                parts = path.relative_to(root.parent).with_suffix("").parts
                found.append(".".join(parts).removesuffix(".__init__"))
    return [name for name in found if not name.startswith((*MIGRATIONS, *PROGRAMS))]


@pytest.mark.parametrize("name", modules())
def test_the_examples_of_a_module_hold(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name in EXTRAS:
            pytest.skip(f"wants the package {exc.name}")
        raise
    outcome = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert outcome.failed == 0


def test_an_example_that_does_not_hold_is_noticed():
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner(verbose=False).run(wrong, out=lambda _: None).failed == 1
