"""Settings: the environment first, then ``[tool.takeback]`` in pyproject.toml, then defaults.

Read once, by the composition root; everything below is handed values.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from takeback.model.errors import InvalidSettings

PREFIX = "TAKEBACK_"
LOOPBACK = "127.0.0.1"
PORT_MAX = 65_535

_ADDRESS = re.compile(
    r"(?:(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9_.-]+))?:)?(?P<port>[0-9]{1,5})"
)


def listening(where: str) -> tuple[str, int]:
    """The host and the port of an address to listen at; without a host, this machine alone.

    >>> listening("9464"), listening("0.0.0.0:9464"), listening("[::1]:9464")
    (('127.0.0.1', 9464), ('0.0.0.0', 9464), ('::1', 9464))

    Raises ValueError when it is none.
    """
    found = _ADDRESS.fullmatch(where)
    if found is None or not 1 <= int(found["port"]) <= PORT_MAX:
        raise ValueError(f"{where!r} is no HOST:PORT")
    return found["v6"] or found["host"] or LOOPBACK, int(found["port"])


def _served(where: str | None) -> str | None:
    if where is not None:
        listening(where)
    return where


class _Values(BaseModel):
    """The settings as they are written, checked by pydantic."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    database_url: str | None = None
    app: str | None = Field(default=None, pattern=r"^[\w.]+:[\w.]+$")
    broker_url: str | None = Field(default=None, pattern=r"^(rediss?|amqps?)://")
    tenant: str = Field(
        default="default", min_length=1, max_length=100, pattern=r"^[^\s\x00-\x1f\x7f]+$"
    )
    log: Literal["console", "json"] = "console"
    key_secret: str | None = Field(default=None, min_length=16)
    lease_seconds: float = Field(default=30.0, gt=0)
    reconcile_seconds: float | None = Field(default=None, gt=0)
    memory_mb: int | None = Field(default=None, ge=64)
    metrics: Annotated[str | None, AfterValidator(_served)] = None
    data_directory: str | None = None


_EXPECTED = {
    "app": "module:attribute, such as shop.app:app",
    "broker_url": "redis://host:port/0 or amqp://user@host:port/",
    "tenant": "1 to 100 characters without white space",
    "log": "console or json",
    "key_secret": "at least 16 characters",
    "lease_seconds": "more than 0 seconds",
    "reconcile_seconds": "more than lease_seconds",
    "metrics": "HOST:PORT or a port, such as 127.0.0.1:9464",
    "memory_mb": "a whole number of megabytes, 64 or more",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an app is set to. ``sources`` says where each value came from. Raises InvalidSettings.

    ``database_url`` None means the embedded Postgres in ``data_directory`` (None: the user's own
    data directory). ``lease_seconds`` is how long a worker owns what it has claimed, and
    ``reconcile_seconds`` how long after its begin an attempt in doubt is asked about (None: a
    second longer). ``memory_mb`` bounds the memory of a worker's process (None: unbounded), and at
    ``metrics`` it serves them: HOST:PORT, or a port of this machine alone (None: nowhere).
    """

    database_url: str | None = None
    app: str | None = None
    broker_url: str | None = None
    tenant: str = "default"
    log: str = "console"
    key_secret: str | None = field(default=None, repr=False)
    lease_seconds: float = 30.0
    reconcile_seconds: float | None = None
    memory_mb: int | None = None
    metrics: str | None = None
    data_directory: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Values are held to the same bounds wherever they come from."""
        try:
            _Values(**{name: getattr(self, name) for name in NAMES})
        except ValidationError as problem:
            sources = {name: self.sources.get(name, f"Settings({name}=...)") for name in NAMES}
            raise InvalidSettings("; ".join(_complaints(problem, sources).values())) from None


NAMES = tuple(_Values.model_fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """One setting as an operator sees it; ``problem`` is None when nothing is wrong with it."""

    name: str
    value: Any
    source: str
    problem: str | None


def load(environ: Mapping[str, str], directory: Path) -> Settings:
    """The settings of a process that runs in ``directory``.

    Raises InvalidSettings, naming every value that can't be used, where it stands, and what was
    expected.
    """
    values, sources = _gather(environ, _pyproject(directory))
    try:
        checked = _Values(**values)
    except ValidationError as problem:
        raise InvalidSettings("; ".join(_complaints(problem, sources).values())) from None
    return Settings(**checked.model_dump(), sources=sources)


def review(environ: Mapping[str, str], directory: Path) -> list[Reviewed]:
    """Every setting with its value, where it came from, and what is wrong with it."""
    reviewed: list[Reviewed] = []
    table: dict[str, Any] = {}
    try:
        table = _pyproject(directory)
    except InvalidSettings as problem:
        name = "pyproject.toml"
        reviewed.append(Reviewed(name=name, value=None, source=name, problem=str(problem)))
    values, sources = _gather(environ, table)
    complaints: dict[str, str] = {}
    try:
        _Values(**values)
    except ValidationError as problem:
        complaints = _complaints(problem, sources)
    for name in (*NAMES, *(name for name in values if name not in NAMES)):
        default = _Values.model_fields[name].default if name in NAMES else None
        reviewed.append(
            Reviewed(
                name=name,
                value=values.get(name, default),
                source=sources.get(name, "default"),
                problem=complaints.get(name),
            )
        )
    return reviewed


def masked(url: str) -> str:
    """The URL without its passwords, also where it is not written as it should be.

    >>> masked("postgresql://dana:s3:cr/et@db/shop?sslpassword=x&connect_timeout=3")
    'postgresql://dana:***@db/shop?sslpassword=***&connect_timeout=3'
    >>> masked("host=db password=secret")
    '(not shown: it is no URL)'
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return "(not shown: it is no URL)"
    rest = _PASSWORDS.sub(r"\1***", rest)
    credentials, at, address = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    return f"{scheme}://{user}{':***' if colon else ''}{at}{address}"


_PASSWORDS = re.compile(r"((?:ssl)?password=)[^&#\s]*", re.IGNORECASE)


def _gather(
    environ: Mapping[str, str], table: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The values that are set, and where each comes from."""
    values: dict[str, Any] = dict(table)
    sources: dict[str, str] = dict.fromkeys(table, "pyproject.toml")
    if environ.get("DATABASE_URL") and "database_url" not in values:
        values["database_url"], sources["database_url"] = environ["DATABASE_URL"], "DATABASE_URL"
    for name in NAMES:
        variable = PREFIX + name.upper()
        if environ.get(variable):
            values[name], sources[name] = environ[variable], variable
    return values, sources


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


def _complaints(problem: ValidationError, sources: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with each setting that can't be used."""
    found: dict[str, str] = {}
    for one in problem.errors():
        name = str(one["loc"][0])
        if one["type"] == "extra_forbidden":
            expected = f"expected one of: {', '.join(NAMES)}"
            found[name] = f"{name!r} in pyproject.toml is no setting; {expected}"
            continue
        where = sources.get(name, PREFIX + name.upper())
        shown = _shown(name, one["input"])
        found[name] = f"{where} is {shown}; expected {_EXPECTED.get(name, 'text')}"
    return found


def _shown(name: str, value: Any) -> str:
    if name == "key_secret":
        return "a value that is not shown"
    return repr(masked(value) if name.endswith("_url") and isinstance(value, str) else value)
