"""A person is asked before something far-reaching is done: on a terminal, and nowhere else."""

from __future__ import annotations

import sys

from takeback.cli.door import Door
from takeback.cli.failure import Usage


def is_agreed(door: Door, question: str, *, yes: bool) -> bool:
    """Whether to go on. ``yes`` is what --yes has said beforehand.

    Raises Usage where nobody can be asked: without a terminal, or with --json.
    """
    if yes:
        return True
    is_person = sys.stdin is not None and sys.stdin.isatty()
    if door.voice.json_wanted or not is_person:
        raise Usage(f"{question} Nobody can be asked here; expected --yes if that is meant")
    door.voice.flush()
    door.voice.note(f"{question} [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
