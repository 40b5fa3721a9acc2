"""The worker of the demo, a process of its own: ``python -m takeback_shop.worker``.

It carries out what is due until its input ends, so that it never outlives whoever has started it.
Elsewhere the command for this is ``takeback worker``.
"""

from __future__ import annotations

import os
import sys
import threading

from takeback import log
from takeback_shop.app import app


def main() -> None:
    """Works until standard input ends."""
    log.configure(app.settings.log)
    stopping = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.buffer.read()
        stopping.set()

    threading.Thread(target=wait_for_the_end, name="end-of-input", daemon=True).start()
    worker = app.worker(
        name=f"demo:{os.getpid()}",
        sleep=lambda seconds: _wait(stopping, seconds),
        stopping=stopping.is_set,
    )
    try:
        worker.run()
    finally:
        app.close()


def _wait(stopping: threading.Event, seconds: float) -> None:
    stopping.wait(seconds)


if __name__ == "__main__":
    main()
