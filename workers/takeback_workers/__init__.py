"""Processes that carry out what is due: the composition of an app for a worker.

The embedded loop is in ``takeback_workers.embedded``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from takeback import Takeback, process

__all__ = ["load_app"]


def load_app(environ: Mapping[str, str] | None = None, directory: Path | None = None) -> Takeback:
    """The app that the settings name: TAKEBACK_APP, or ``app`` in the folder's pyproject.toml.

    None reads this process's own environment and folder, whose modules can be imported. Raises
    InvalidSettings when none is named or when the one that is can't be used, and InvalidCatalog.
    """
    return process.load_named(os.environ if environ is None else environ, directory or Path.cwd())
