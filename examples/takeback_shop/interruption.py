"""Being told to end: by Ctrl-C, by a terminal that closes, or by whoever ends processes.

An exception in the middle of a statement may be taken for the database's own trouble, and the
statement repeated. So the first signal is only noted, and ``check`` ends things between two steps;
a second one ends them where they are.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Notes signals while its block runs, in the main thread; elsewhere it notes nothing."""

    def __init__(self) -> None:
        self._is_asked = False
        self._former: dict[signal.Signals, Any] = {}

    def check(self) -> None:
        """Raises KeyboardInterrupt when the process was told to end."""
        if self._is_asked:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # Whoever starts a process in the background may have it ignore Ctrl-C.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._former[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.check()
        self._is_asked = True
