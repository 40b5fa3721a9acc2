"""Which app a command is for: how it is named, and what is said when it can't be used."""

import sys
from pathlib import Path

import pytest

from tests.cli.terminal import FOLDER, Terminal, call, process


@pytest.fixture
def folder(tmp_path: Path, kiosk: Terminal, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that the terminal stands in, with a ledger but no app."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TAKEBACK_APP")
    return tmp_path


def test_an_app_is_named_by_option_environment_or_pyproject_in_this_order(
    folder: Path, kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    (folder / "kiosk.py").write_text((FOLDER / "kiosk.py").read_text())
    (folder / "pyproject.toml").write_text('[tool.takeback]\napp = "kiosk:app"\n')
    assert kiosk("catalog", "list").exit == 0
    monkeypatch.setenv("TAKEBACK_APP", "kiosk:other")
    assert "'kiosk:other'" in kiosk("catalog", "list").err
    assert "'kiosk:third'" in kiosk("--app", "kiosk:third", "catalog", "list").err
    assert kiosk("catalog", "list", "--app=kiosk:app").exit == 0


def test_without_an_app_the_three_ways_to_name_one_are_said(folder: Path, kiosk: Terminal):
    for verb in (
        call("post", to="dana"),
        ["restore", "post-00000000"],
        ["worker", "--drain"],
        ["catalog", "list"],
        ["catalog", "show", "post"],
    ):
        said = kiosk(*verb)
        assert said.exit == 2, verb
        assert "--app" in said.err
        assert "TAKEBACK_APP" in said.err
        assert "[tool.takeback]" in said.err
        assert kiosk(*verb, "--json").code == "usage"


def test_verbs_of_the_ledger_need_no_app(folder: Path, kiosk: Terminal):
    for verb in ("migrate", "doctor", "list", "events", "verify", "rebuild"):
        assert kiosk(verb).exit == 0, verb


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nowhere:app", "no module is named 'nowhere'"),
        ("json.nowhere:app", "no module is named 'json.nowhere'"),
        ("kiosk:nothing", "there is kiosk:app"),
        ("kiosk:CATALOG", "is a Catalog; expected a Takeback"),
        ("kiosk:app.registry", "is a Registry; expected a Takeback"),
        ("json:loads", "is a function; expected a Takeback"),
        ("json:nothing", "it holds no Takeback at all"),
        ("kiosk", "expected module:attribute"),
        ("kiosk:", "expected module:attribute"),
        ("a b:c", "expected module:attribute"),
        ("..:app", "expected module:attribute"),
        ("", "expected module:attribute"),
    ],
)
def test_a_name_that_leads_nowhere_says_how_far_it_led(kiosk: Terminal, name: str, expected: str):
    said = kiosk("--app", name, "list")
    assert said.exit == 2
    assert said.err.count("takeback:") == 1
    assert expected in said.err


@pytest.mark.parametrize(
    ("text", "expected", "place"),
    [
        ("import nowhere_to_be_found\n", "No module named 'nowhere_to_be_found'", "broken.py:1"),
        ("\n\nx = 1 / 0\n", "ZeroDivisionError: division by zero", "broken.py:3"),
        ("def f(:\n", "SyntaxError", "broken.py:1"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3", "broken.py:2"),
        ("import json\njson.loads('{')\n", "JSONDecodeError", "broken.py:2"),
        ("x = 1\nraise RuntimeError\n", "RuntimeError", "broken.py:2"),
    ],
    ids=["import", "error", "syntax", "exit", "library", "silent"],
)
def test_a_module_that_fails_is_told_with_its_line_and_without_a_traceback(
    folder: Path, kiosk: Terminal, text: str, expected: str, place: str
):
    (folder / "broken.py").write_text(text)
    said = kiosk("--app", "broken:app", "list")
    assert said.exit == 2
    assert expected in said.err
    assert place in said.err
    assert "Traceback" not in said.err
    document = kiosk("--app", "broken:app", "list", "--json")
    assert (document.exit, document.code) == (2, "invalid_settings")


def test_a_catalog_that_is_refused_says_every_row_and_its_fix(folder: Path, kiosk: Terminal):
    text = (FOLDER / "kiosk.py").read_text()
    (folder / "broken.py").write_text(text.replace('    "jam": Jamming,\n    "seek": seek,\n', ""))
    said = kiosk("--app", "broken:app", "list")
    assert said.exit == 2
    assert "row 'jam'" in said.err
    assert "row 'seek'" in said.err
    assert kiosk("--app", "broken:app", "list", "--json").code == "invalid_catalog"


def test_modules_beside_the_prompt_are_found_before_installed_ones(folder: Path):
    (folder / "hatchling.py").write_text("raise RuntimeError('mine')\n")
    script = Path(sys.executable).with_name("takeback")
    said = process("--app", "hatchling:app", "list", directory=folder, program=[str(script)])
    assert said.exit == 2
    assert "RuntimeError: mine" in said.err


def test_a_broken_pyproject_is_a_setting_that_can_not_be_read(folder: Path, kiosk: Terminal):
    (folder / "pyproject.toml").write_text("[tool.takeback\n")
    said = kiosk("list", "--json")
    assert (said.exit, said.code) == (2, "invalid_settings")
    assert "pyproject.toml" in said.document["error"]["message"]
    assert kiosk("doctor", "--json").document["settings"][0]["name"] == "pyproject.toml"


def test_a_setting_that_is_none_is_named_with_those_that_are(folder: Path, kiosk: Terminal):
    (folder / "pyproject.toml").write_text("[tool.takeback]\ntenants = 3\n")
    said = kiosk("list")
    assert said.exit == 2
    assert "'tenants' in pyproject.toml is no setting" in said.err


def test_the_app_of_a_worker_is_the_one_that_is_set(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    from takeback import InvalidSettings
    from takeback_workers import load_app

    app = load_app()
    assert "ring" in app.registry
    with pytest.raises(InvalidSettings, match="no app is named"):
        load_app({}, FOLDER)
