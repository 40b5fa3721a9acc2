"""What became of the attempts that one worker has written down, told apart."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Ends:
    """Counts by the word for each end: ``succeeded``, ``failed``, ``deferred``, ``in_doubt`` and
    others. For several threads at once.

    >>> ends = Ends()
    >>> ends.note(["succeeded", "deferred", "succeeded"])
    >>> ends.count("succeeded"), ends.count("in_doubt")
    (2, 0)
    """

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _counts: Counter[str] = field(default_factory=Counter)

    def note(self, words: Iterable[str]) -> None:
        """That so many attempts have ended so."""
        with self._lock:
            self._counts.update(words)

    def count(self, word: str) -> int:
        """How many have ended so."""
        with self._lock:
            return self._counts[word]
