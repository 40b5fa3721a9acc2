"""The project's own measurements, each with its floor beside it, in one run on one machine.

Absolute rates drift by a factor of two on shared machines, so what counts are the ratios: rounds of
all variants are interleaved and medians are compared.
"""

from takeback.bench.run import main

__all__ = ["main"]
