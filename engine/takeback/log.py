"""The log for operators: events with fields, on stderr, as lines for people or as JSON.

The library logs through the standard ``logging`` under the name "takeback" and configures nothing;
``configure`` is for our own processes. Nothing that is logged here reaches a model.
"""

from __future__ import annotations

import logging
import sys
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


def configure(kind: str) -> None:
    """Sends the log of this process to stderr: ``console`` for people, ``json`` for programs."""
    renderer: Any = structlog.processors.JSONRenderer()
    if kind == "console":
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                renderer,
            ]
        )
    )
    root = logging.getLogger("takeback")
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    root.propagate = False
