"""Settings: the environment first, then ``[tool.takeback]`` in pyproject.toml, then defaults.

Read once, by the composition root; everything below is handed values.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from takeback.model.errors import InvalidSettings

PREFIX = "TAKEBACK_"


class _Values(BaseModel):
    """The settings as they are written, checked by pydantic."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    database_url: str | None = None
    app: str | None = Field(default=None, pattern=r"^[\w.]+:[\w.]+$")
    broker_url: str | None = Field(default=None, pattern=r"^(rediss?|amqps?)://")
    tenant: str = Field(default="default", min_length=1, max_length=100, pattern=r"^\S+$")
    log: Literal["console", "json"] = "console"
    key_secret: str | None = Field(default=None, min_length=16)
    lease_seconds: float = Field(default=30.0, gt=0)
    data_directory: str | None = None


_EXPECTED = {
    "app": "module:attribute, such as shop.app:app",
    "broker_url": "redis://host:port/0 or amqp://user@host:port/",
    "tenant": "1 to 100 characters without white space",
    "log": "console or json",
    "key_secret": "at least 16 characters",
    "lease_seconds": "more than 0 seconds",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an app is set to. ``sources`` says where each value came from.

    ``database_url`` None means the embedded Postgres in ``data_directory`` (None: the user's own
    data directory). ``lease_seconds`` is how long a worker owns what it has claimed.
    """

    database_url: str | None = None
    app: str | None = None
    broker_url: str | None = None
    tenant: str = "default"
    log: str = "console"
    key_secret: str | None = field(default=None, repr=False)
    lease_seconds: float = 30.0
    data_directory: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


NAMES = tuple(_Values.model_fields)


def load(environ: Mapping[str, str], directory: Path) -> Settings:
    """The settings of a process that runs in ``directory``.

    Raises InvalidSettings, naming every value that can't be used, where it stands, and what was
    expected.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, value in _pyproject(directory).items():
        values[name], sources[name] = value, "pyproject.toml"
    if environ.get("DATABASE_URL") and "database_url" not in values:
        values["database_url"], sources["database_url"] = environ["DATABASE_URL"], "DATABASE_URL"
    for name in NAMES:
        variable = PREFIX + name.upper()
        if environ.get(variable):
            values[name], sources[name] = environ[variable], variable
    try:
        checked = _Values(**values)
    except ValidationError as problem:
        raise InvalidSettings(_complaint(problem, sources)) from None
    return Settings(**checked.model_dump(), sources=sources)


def _pyproject(directory: Path) -> dict[str, Any]:
    path = directory / "pyproject.toml"
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as problem:
        raise InvalidSettings(f"{path} can't be read as TOML: mend or remove it") from problem
    table = document.get("tool", {}).get("takeback", {})
    if not isinstance(table, dict):
        raise InvalidSettings(f"[tool.takeback] in {path} is no table; expected name = value lines")
    return table


def _complaint(problem: ValidationError, sources: Mapping[str, str]) -> str:
    lines = []
    for one in problem.errors():
        name = str(one["loc"][0])
        if one["type"] == "extra_forbidden":
            lines.append(
                f"{name!r} in pyproject.toml is no setting; expected one of: {', '.join(NAMES)}"
            )
            continue
        shown = "a value that is not shown" if name == "key_secret" else repr(one["input"])
        where = sources.get(name, PREFIX + name.upper())
        lines.append(f"{where} is {shown}; expected {_EXPECTED.get(name, 'text')}")
    return "; ".join(lines)
