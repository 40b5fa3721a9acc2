"""Tries a caller that reads only fields on thousands of malformed calls, and prints how it fared.

The figures of each release are stored beside this module, so that a rewrite of an error is shown
by what it changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module, resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table

from takeback.app import Takeback
from takeback.bench.place import own_database, progress_bar
from takeback.settings import Settings
from takeback.testing.recovery.ablation import ABLATIONS, Reading
from takeback.testing.recovery.clinic import clinic
from takeback.testing.recovery.corpus import Case, cases, sample
from takeback.testing.recovery.harbour import harbour
from takeback.testing.recovery.library import library
from takeback.testing.recovery.score import Score, Scores, by_fault, scored
from takeback.testing.recovery.shop import shop
from takeback.testing.recovery.subject import Subject
from takeback.testing.recovery.trial import Result, Trial, try_all

STORED = "recovered"

# What is promised of the whole answers.
INFORMED_RIGHT_MIN = 1.0
INFORMED_ATTEMPTS_MAX = 2
UNINFORMED_RIGHT_OR_HONEST_MIN = 0.98

# Parts of a second's rounding are no change.
_CHANGED_MIN = 0.0005


def main(*, json_output: bool = False, count: int | None = None, store: Path | None = None) -> int:
    """Tries ``count`` cases, or all, and prints; answers with 1 when a promise is not kept.

    ``store`` is the file that the figures are kept in.
    """
    subjects = all_subjects()
    chosen = corpus(subjects, count)
    with (
        own_database() as (url, _),
        progress_bar(json_output=json_output) as progress,
    ):
        task = progress.add_task("calling", total=len(chosen))
        results = tried(url, subjects, chosen, tick=lambda: progress.advance(task))
    scores = scored(results)
    document = {
        "version": version("takeback"),
        "cases": len(chosen),
        "scores": _document(scores),
        "faults": {
            fault: _document(of_fault)["whole"]
            for fault, of_fault in sorted(by_fault(results).items())
        },
        "broken_promises": broken(scores),
    }
    before = stored()
    if store is not None:
        store.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
    if json_output:
        print(json.dumps(document | {"before": before and before["scores"]}))
    else:
        _print(document, before)
    return 1 if document["broken_promises"] else 0


def all_subjects() -> list[Subject]:
    """The shop, which is loaded by its name, and the three catalogs of our own."""
    catalog = import_module("takeback_shop.catalog").CATALOG
    handlers = import_module("takeback_shop.handlers")
    return [shop(catalog, handlers), clinic(), harbour(), library()]


def corpus(subjects: Sequence[Subject], count: int | None = None) -> list[Case]:
    """Every malformed call, or so many of them, spread evenly."""
    found = [case for subject in subjects for case in cases(subject)]
    return found if count is None else sample(found, count)


def tried(
    url: str,
    subjects: Sequence[Subject],
    chosen: Sequence[Case],
    *,
    ablations: Mapping[str, Reading] = ABLATIONS,
    tick: Callable[[], object] = lambda: None,
) -> list[Result]:
    """The results of the cases on a database that is migrated first."""
    results: list[Result] = []
    for subject in subjects:
        own = [case for case in chosen if case.subject == subject.name]
        with opened(url, subject) as app, psycopg.connect(url) as connection:
            results += try_all(Trial(app, connection), own, ablations=ablations, tick=tick)
    return results


@contextmanager
def opened(url: str, subject: Subject) -> Iterator[Takeback]:
    """The app of a subject on a migrated database; the shop brings tables of its own."""
    steps = (import_module("takeback_shop.schema").migrate,) if subject.name == "shop" else ()
    app = Takeback(
        subject.catalog,
        handlers=subject.handlers,
        settings=Settings(database_url=url),
        migrations=steps,
    )
    try:
        app.migrate()
        yield app
    finally:
        app.close()


def broken(scores: Scores) -> list[str]:
    """The promises that the whole answers did not keep, and ablations that fared no worse."""
    informed, uninformed = scores["whole", "informed"], scores["whole", "uninformed"]
    found: list[str] = []
    if informed.share(informed.right) < INFORMED_RIGHT_MIN:
        found.append(f"informed: {informed.share(informed.right):.4f} right, all was promised")
    slow = sum(n for attempts, n in informed.attempts.items() if attempts > INFORMED_ATTEMPTS_MAX)
    if slow:
        found.append(f"informed: {slow} cases took more than {INFORMED_ATTEMPTS_MAX} calls")
    done = uninformed.share(uninformed.right + uninformed.honest)
    if done < UNINFORMED_RIGHT_OR_HONEST_MIN:
        found.append(f"uninformed: {done:.4f} right or stopped honestly, 0.98 was promised")
    found += [
        f"{form}: {scores['whole', form].wrong} wrong commits, none was promised"
        for form in _FORMS
        if scores["whole", form].wrong
    ]
    found += [
        f"{ablation!r} fares no worse than the whole answer: the trial proves nothing"
        for ablation in dict.fromkeys(name for name, _ in scores)
        if ablation != "whole" and not _is_worse(scores, ablation)
    ]
    return found


def _is_worse(scores: Scores, ablation: str) -> bool:
    """Fewer cases right, or more calls for them, in either form by a hundredth at least."""
    return any(_is_behind(scores[ablation, form], scores["whole", form]) for form in _FORMS)


_FORMS = ("informed", "uninformed")
_WORSE_MIN = 0.01


def _is_behind(less: Score, whole: Score) -> bool:
    fewer = whole.share(whole.right) - less.share(less.right) > _WORSE_MIN
    return fewer or less.attempts_mean - whole.attempts_mean > _WORSE_MIN


def stored() -> dict[str, Any] | None:
    """The figures of the newest release that has some; None when none has."""
    folder = resources.files("takeback.bench") / STORED
    names = [one.name for one in folder.iterdir() if one.name.endswith(".json")]
    if not names:
        return None
    document: dict[str, Any] = json.loads((folder / max(names, key=_order)).read_text("utf-8"))
    return document


def _order(name: str) -> tuple[list[int], bool, str]:
    """Releases in their order: 0.9.0 before 0.10.0.dev1 before 0.10.0."""
    release, dev, more = name.removesuffix(".json").partition(".dev")
    return [int(part) for part in release.split(".")], not dev, more


def _document(scores: Scores) -> dict[str, dict[str, Any]]:
    document: dict[str, dict[str, Any]] = {}
    for (ablation, form), score in scores.items():
        document.setdefault(ablation, {})[form] = score.to_json()
    return document


_COLUMNS: Mapping[str, str] = {
    "right": "right",
    "right_or_honest_stop": "or honest",
    "right_reason": "right end",
    "wrong_commits": "wrong",
    "attempts_mean": "calls",
    "lookups": "look-ups",
    "tokens_mean": "tokens",
}


_SHORT = {"no candidates": "bare", "first violation only": "first only", "prose only": "prose"}


def _print(document: Mapping[str, Any], before: Mapping[str, Any] | None) -> None:
    console = Console()
    table = Table(title=f"{document['cases']} malformed calls", title_justify="left")
    shown = [name for name in _COLUMNS if name not in ("attempts_mean", "lookups")]
    for column in ("answers", "caller", *(_COLUMNS[name] for name in shown), "right in so many"):
        left = column in ("answers", "caller", "right in so many")
        table.add_column(column, justify="left" if left else "right", no_wrap=column == "caller")
    for ablation, forms in document["scores"].items():
        for form, figures in forms.items():
            calls = ", ".join(f"{calls}: {n}" for calls, n in figures["attempts"].items())
            told = (_said(name, figures[name]) for name in shown)
            table.add_row(_SHORT.get(ablation, ablation), form, *told, calls or "-")
    console.print(table)
    for line in _changes(document, before):
        console.print(line)
    for promise in document["broken_promises"]:
        console.print(f"not kept: {promise}")


def _said(name: str, figure: float) -> str:
    if name in ("wrong_commits", "lookups"):
        return str(figure)
    return f"{figure:.1f}" if name == "tokens_mean" else f"{figure:.3f}"


def _changes(document: Mapping[str, Any], before: Mapping[str, Any] | None) -> Iterator[str]:
    """Each figure of the whole answers that is another than in the stored release."""
    if before is None:
        yield "Nothing is stored to compare with."
        return
    if before["cases"] != document["cases"]:
        yield f"{before['version']} was measured on {before['cases']} calls: not compared."
        return
    lines = [
        f"{form}: {_COLUMNS[name]} {_said(name, was[name])} -> {_said(name, now[name])}"
        for form in _FORMS
        for was, now in [(before["scores"]["whole"][form], document["scores"]["whole"][form])]
        for name in _COLUMNS
        if abs(was[name] - now[name]) > _CHANGED_MIN
    ]
    yield f"Against {before['version']}: " + ("; ".join(lines) if lines else "no figure changed.")
