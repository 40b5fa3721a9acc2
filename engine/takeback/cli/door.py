"""What a verb is handed: the settings, the app, and a voice. Each is found when first wanted.

Which app: ``--app``, else TAKEBACK_APP, else the folder's pyproject.toml. Verbs that only look at
the ledger need none: they get an app without tools.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from takeback.cli.failure import Usage, reason_of
from takeback.cli.voice import Voice

if TYPE_CHECKING:
    from takeback.app import Takeback
    from takeback.settings import Settings

SHOP = "takeback_shop.app:app"
"""The example, which comes with the package."""


class Door:
    """One command on its way: who asks, in which folder, for which app."""

    def __init__(self, *, voice: Voice, environ: Mapping[str, str], directory: Path) -> None:
        self.voice = voice
        self.directory = directory
        self.environ = dict(environ)
        self.app_name: str | None = None
        self.threads_abandoned = 0
        self._opened: Takeback | None = None

    def name_app(self, name: str) -> None:
        """What --app says; it comes before what is set."""
        if not re.fullmatch(r"[\w.]+:[\w.]+", name):
            raise Usage(f"--app is {name!r}; expected module:attribute, such as shop.app:app")
        self.app_name = self.environ["TAKEBACK_APP"] = name

    @cached_property
    def settings(self) -> Settings:
        """The settings in force. Raises InvalidSettings."""
        from takeback import settings

        loaded = settings.load(self.environ, self.directory)
        if self.app_name is None:
            return loaded
        return replace(loaded, sources={**loaded.sources, "app": "--app"})

    def app(self, *, fallback: str | None = None) -> Takeback:
        """The app that was named, else ``fallback``.

        Raises Usage when there is neither, InvalidSettings and InvalidCatalog.
        """
        from takeback import log, process

        name = self.settings.app or fallback
        if name is None:
            ways = "".join(f"\n  {way}" for way in process.WAYS)
            raise Usage(f"this verb needs an app, and none is named; expected one of:{ways}")
        log.configure(self.settings.log, brief=True, answered=_wants_sizes(self.settings))
        self.voice.keep_stdout()
        self._opened = process.load(name, self.directory)
        return self._opened

    def ledger(self) -> Takeback:
        """The app that was named; without one an app that has no tools, only a ledger."""
        if self.settings.app is not None:
            return self.app()
        return self.bare_ledger()

    def bare_ledger(self, settings: Settings | None = None) -> Takeback:
        """An app that has no tools, only a ledger; ``settings`` None are those in force."""
        from takeback import log
        from takeback.app import Takeback
        from takeback.declare import Catalog

        in_force = settings or self.settings
        log.configure(in_force.log, brief=True, answered=_wants_sizes(in_force))
        self._opened = Takeback(Catalog(), handlers={}, settings=in_force)
        return self._opened

    @property
    def app_option(self) -> str:
        """What a command line that follows up on this one has to repeat."""
        return f"--app {shlex.quote(self.app_name)} " if self.app_name else ""

    def principal(self, given: str | None) -> str:
        """Who acts: as given, else the user of the operating system, who is a person."""
        if given is not None:
            if not given.strip():
                raise Usage("--principal is empty; expected a name, user:NAME or agent:NAME")
            return given
        return user_of_system()

    def broker_whereabouts(self, problem: BaseException) -> list[str]:
        """Which broker was meant, and why it can't be had."""
        from takeback.settings import masked

        settings = self._opened.settings if self._opened else self.settings
        url, source = settings.broker_url, settings.sources.get("broker_url")
        if url is None:
            return []
        reason = reason_of(problem)
        said = f"the broker is {masked(url)}" + (f" (from {source})" if source else "")
        return [said, *([reason] if reason else []), "next: `takeback doctor`"]

    def whereabouts(self) -> list[str]:
        """Which database was meant, and how it is now: for whoever has to mend it."""
        from takeback.model.errors import TakebackError
        from takeback.settings import masked

        url = self._opened.settings.database_url if self._opened else None
        if self._opened is None or url is None:
            return []
        source = self._opened.settings.sources.get("database_url")
        lines = [f"the database is {masked(url)}" + (f" (from {source})" if source else "")]
        try:
            health = self._opened.health()
        except TakebackError as problem:
            reason = reason_of(problem)
            return [*lines, *([reason] if reason else []), "next: `takeback doctor`"]
        if health.revision is None:
            return [*lines, "next: `takeback migrate`"]
        return [*lines, "it answers now: do it again; what was recorded is found, not repeated"]

    def close(self) -> None:
        """Gives back what was opened."""
        self.voice.give_stdout_back()
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _wants_sizes(settings: Settings) -> bool:
    """Whether somebody who reads logs as JSON looks on: they hear of each answer that leaves."""
    return settings.log == "json"


def door_of(context: typer.Context) -> Door:
    """The door that ``main`` has put into the context of every verb."""
    door = context.find_object(Door)
    if door is None:
        raise TypeError("a verb is run by takeback.cli.main, which hands it a Door")
    return door


def user_of_system() -> str:
    """The name of the user whose process this is, however the environment calls them."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid-{os.getuid()}"
