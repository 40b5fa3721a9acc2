"""The app whose tools do nothing, for processes that find theirs by a name."""

from __future__ import annotations

from takeback.app import Takeback
from takeback.bench.subject import CATALOG, HANDLERS

app = Takeback(CATALOG, handlers=HANDLERS)
