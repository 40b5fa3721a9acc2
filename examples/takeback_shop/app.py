"""The shop as an app that every command can be pointed at: ``--app takeback_shop.app:app``."""

from __future__ import annotations

import os

from takeback_shop import setting
from takeback_shop.assembly import assemble

app = assemble(setting.load(os.environ))
