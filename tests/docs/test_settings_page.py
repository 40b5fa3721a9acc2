"""docs/settings.md says of every setting what the code does with it."""

from pathlib import Path

import pytest

from takeback import InvalidSettings, settings
from takeback.ledger.database import Database
from tests.docs.page import read, unquoted

PAGE = read("docs/settings.md")
TABLE = PAGE.table("setting", "variable", "default")
REFUSED = [
    (unquoted(row[1]), unquoted(row[4])) for row in TABLE.rows if row[4]
]  # an empty cell: any text will do


def test_every_setting_is_in_the_table_and_nothing_else():
    assert [unquoted(cell) for cell in TABLE.column("setting")] == list(settings.NAMES)


def test_each_variable_sets_its_setting():
    told = {unquoted(row[0]): unquoted(row[1]) for row in TABLE.rows}
    value = {
        "lease_seconds": "5",
        "reconcile_seconds": "5",
        "memory_mb": "512",
        "metrics": "127.0.0.1:9464",
        "app": "a:b",
        "broker_url": "redis://h",
        "log": "json",
    }
    for name, variable in told.items():
        given = value.get(name, "postgresql://127.0.0.1/of-sixteen-characters")
        loaded = settings.load({variable: given}, Path("/nowhere"))
        assert str(getattr(loaded, name)) in (given, f"{given}.0")
        assert loaded.sources[name] == variable


def test_each_default_is_the_one_in_the_table():
    told = {unquoted(row[0]): unquoted(row[2]) for row in TABLE.rows}
    bare = settings.load({}, Path("/nowhere"))
    found = {name: getattr(bare, name) for name in told}
    assert told == {k: "none" if v is None else str(v) for k, v in found.items()}


@pytest.mark.parametrize(("variable", "value"), REFUSED)
def test_what_the_table_says_is_refused_is_refused(variable: str, value: str):
    with pytest.raises(InvalidSettings):
        Database(settings.load({variable: value}, Path("/nowhere")).database_url or "postgresql://")


def test_a_refusal_names_every_bad_value_and_shows_no_secret():
    environ = {"TAKEBACK_KEY_SECRET": "hush", "TAKEBACK_LOG": "xml", "TAKEBACK_TENANT": "a b"}
    with pytest.raises(InvalidSettings) as refused:
        settings.load(environ, Path("/nowhere"))
    assert all(variable in str(refused.value) for variable in environ)
    assert "hush" not in str(refused.value)


def test_the_file_in_the_page_is_one_that_is_taken(tmp_path: Path):
    (block,) = (block for block in PAGE.blocks if block.language == "toml")
    (tmp_path / "pyproject.toml").write_text(block.text)
    loaded = settings.load({}, tmp_path)
    assert (loaded.app, loaded.tenant, loaded.lease_seconds) == ("shop.app:app", "shop", 45.0)


def test_a_name_that_is_no_setting_is_refused(tmp_path: Path):
    (tmp_path / "pyproject.toml").write_text("[tool.takeback]\ndatabase = 'x'\n")
    with pytest.raises(InvalidSettings, match="database"):
        settings.load({}, tmp_path)


@pytest.mark.parametrize(
    ("environ", "table", "taken"),
    [
        ({"DATABASE_URL": "postgresql://a"}, "", "postgresql://a"),
        ({"DATABASE_URL": "postgresql://a", "TAKEBACK_DATABASE_URL": ""}, "", "postgresql://a"),
        ({"DATABASE_URL": "postgresql://a"}, "database_url = 'postgresql://b'", "postgresql://b"),
        (
            {"TAKEBACK_DATABASE_URL": "postgresql://c"},
            "database_url = 'postgresql://b'",
            "postgresql://c",
        ),
    ],
)
def test_the_nearest_database_is_taken(tmp_path: Path, environ: dict, table: str, taken: str):
    (tmp_path / "pyproject.toml").write_text(f"[tool.takeback]\n{table}\n")
    assert settings.load(environ, tmp_path).database_url == taken
