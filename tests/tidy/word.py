"""Words that stand nowhere in the repository.

They are spelt in pieces here, since this file is read like every other.
"""

import re
from collections.abc import Iterator

from tests.tidy.source import Finding, Rule, Sources

PROMISE = re.compile(r"exactly[\s_-]+" + "once", re.IGNORECASE)
# The one place that says why we don't say it.
PROMISE_REFUSED_IN = "GLOSSARY.md"
PROMISE_MAX = 1

MACHINE = re.compile(
    r"(?<![\w.~-])/(?:work|root|home/\w+)/"
    r"|/site-" + "packages"
    r"|\bpypi\.\w|\bregistry\.\w+\.\w+|--find-" + "links|--(?:extra-)?index-" + "url",
    re.IGNORECASE,
)

LATER = re.compile(r"\b(?:TO" + "DO|FIX" + "ME|HA" + r"CK)\b(?!\([\w#-]+\))")


def nobody_promises_what_cannot_be_kept(sources: Sources) -> Iterator[Finding]:
    """Recorded once; attempted at least once, or at most once; in doubt: these can be kept."""
    for source in sources:
        allowed = PROMISE_MAX if source.path.endswith(PROMISE_REFUSED_IN) else 0
        for number, match in enumerate(PROMISE.finditer(source.text), 1):
            if number > allowed:
                line = source.text.count("\n", 0, match.start()) + 1
                yield Finding(source.path, line, f"{match.group()!r} can't be promised")


def nothing_names_a_machine_or_a_registry(sources: Sources) -> Iterator[Finding]:
    for source in sources:
        yield from matches(source.path, source.text, MACHINE, "names a machine or a registry")


def whatever_is_left_for_later_has_an_owner(sources: Sources) -> Iterator[Finding]:
    for source in sources:
        yield from matches(source.path, source.text, LATER, "is left to nobody: name an issue")


def matches(path: str, text: str, pattern: re.Pattern[str], what: str) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), 1):
        if found := pattern.search(line):
            yield Finding(path, number, f"{found.group()!r} {what}")


_PHRASE = "exactly" + " once"
_ENGINE = "engine/takeback/client/a.py"

RULES = (
    Rule(
        find=nobody_promises_what_cannot_be_kept,
        bad=[
            {"README.md": f"Delivered {_PHRASE}."},
            {_ENGINE: f"# {_PHRASE.upper().replace(' ', '-')}\n"},
            {"docs/a.md": _PHRASE.replace(" ", "\n")},
            {PROMISE_REFUSED_IN: f"{_PHRASE} {_PHRASE}"},
        ],
        good=[{PROMISE_REFUSED_IN: f"Nobody says {_PHRASE!r}."}, {"README.md": "once, exactly"}],
    ),
    Rule(
        find=nothing_names_a_machine_or_a_registry,
        bad=[
            {"docs/a.md": "cd /" + "work/main"},
            {"Makefile": "P := /" + "root/.local"},
            {"docs/a.md": "in /lib/site-" + "packages/takeback"},
            {"pyproject.toml": 'url = "https://pypi' + '.example/simple"'},
            {"requirements.lock": "--index-" + "url https://example.com"},
            {"Dockerfile": "FROM registry" + ".example.com/python"},
        ],
        good=[{"Dockerfile": "WORKDIR /home/takeback\n"}, {"docs/a.md": "see docs/work/a.md"}],
    ),
    Rule(
        find=whatever_is_left_for_later_has_an_owner,
        bad=[{_ENGINE: "# TO" + "DO: later\n"}, {"Makefile": "# FIX" + "ME\n"}],
        good=[{_ENGINE: "# TO" + "DO(#12): when brokers come\n"}, {"docs/a.md": "TOOL-XXXXXXXX"}],
    ),
)
