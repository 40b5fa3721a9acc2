"""The log for operators: events with fields, on stderr, as lines for people or as JSON.

The library logs through the standard ``logging`` under the name "takeback" and configures nothing;
``configure`` is for our own processes. Nothing that is logged here reaches a model.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

_BEFORE: list[Any] = [
    structlog.stdlib.add_log_level,
    structlog.processors.format_exc_info,
    structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
]

logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
    logging.getLogger("takeback"),
    processors=_BEFORE,
    wrapper_class=structlog.stdlib.BoundLogger,
)

answers: structlog.stdlib.BoundLogger = structlog.wrap_logger(
    logging.getLogger("takeback.answers"),
    processors=_BEFORE,
    wrapper_class=structlog.stdlib.BoundLogger,
).bind()
"""At debug, a line for each answer that leaves, with its sizes: wanted apart from the rest.

Bound once, since every answer asks it whether that is wanted."""


def configure(kind: str, *, brief: bool = False, answered: bool = False) -> None:
    """Sends the log of this process to stderr: ``console`` for people, ``json`` for programs.

    ``brief`` is for a command that somebody waits for: errors only, and of an exception no more
    than its last line. ``answered`` adds a line for each answer that leaves, with its sizes.
    """
    renderer: Any = structlog.processors.JSONRenderer()
    if kind == "console":
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr is not None and sys.stderr.isatty(),
            exception_formatter=structlog.dev.plain_traceback,
        )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_BEFORE[:-1],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                *([_shorten] if brief else []),
                renderer,
            ],
        )
    )
    # The pool logs, with a traceback, what is raised to us as well.
    for name, level in (("takeback", logging.INFO), ("sqlalchemy", logging.WARNING)):
        ours = logging.getLogger(name)
        ours.handlers = [handler]
        ours.setLevel(logging.ERROR if brief else level)
        ours.propagate = False
    if brief:
        logging.getLogger("sqlalchemy").setLevel(logging.CRITICAL)
    logging.getLogger("takeback.answers").setLevel(logging.DEBUG if answered else logging.NOTSET)


def _shorten(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    traceback = str(event.pop("exception", "")).strip()
    if traceback:
        event["cause"] = traceback.splitlines()[-1]
    return event
