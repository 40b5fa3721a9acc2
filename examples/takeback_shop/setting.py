"""Where the shop's mail server and providers are, and how long a mail can be called back.

SHOP_EMAIL_WINDOW_S   seconds before a mail leaves (60)
SHOP_SMTP_URL         where mails are handed over (smtp://127.0.0.1:2525)
SHOP_STATE_DIR        where the fakes of payment provider and file store keep what they did
                      (takeback-shop in the user's data directory)
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from takeback import InvalidSettings
from takeback.embedded import default_directory

SMTP_URL = "smtp://127.0.0.1:2525"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopSettings:
    """The shop's settings. ``email_window`` None leaves the window that the catalog declares."""

    email_window: timedelta | None
    smtp_url: str
    state_directory: Path


def load(environ: Mapping[str, str]) -> ShopSettings:
    """The settings that ``environ`` says. Raises InvalidSettings for a window that is none."""
    state = environ.get("SHOP_STATE_DIR")
    return ShopSettings(
        email_window=_window(environ.get("SHOP_EMAIL_WINDOW_S")),
        smtp_url=environ.get("SHOP_SMTP_URL") or SMTP_URL,
        state_directory=Path(state).expanduser() if state else _state_directory(),
    )


def _window(word: str | None) -> timedelta | None:
    if not word:
        return None
    try:
        seconds = float(word)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= timedelta.max.total_seconds():
        raise InvalidSettings(
            f"SHOP_EMAIL_WINDOW_S is {word!r}; expected a number of seconds from 0 up, such as 60"
        )
    return timedelta(seconds=seconds)


def _state_directory() -> Path:
    """Beside Takeback's own data; a user without a home gets a place in the temporary directory."""
    try:
        return default_directory().with_name("takeback-shop")
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"takeback-shop-{os.geteuid()}"
