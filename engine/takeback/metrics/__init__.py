"""Metrics of a process that carries things out, for Prometheus to fetch: one set of names for all.

A process that serves them listens at a port of its own, so that what one says is of that process
alone, and one that has died is seen to be gone. Nothing is kept in files, and nothing is shared.
"""

from takeback.metrics.collector import Watched
from takeback.metrics.exposition import Exposition, expose

__all__ = ["Exposition", "Watched", "expose"]
