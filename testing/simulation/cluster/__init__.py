"""A cluster of three whole nodes under seeded faults, checked after each event; invariants.py lists what must hold.

    python -m odradek.testing.simulation --seeds 0-99
    python -m odradek.testing.simulation --seeds 7 --trace

A seed and a commit determine the run: the trace is the same, as its hash shows.
"""

from .invariants import Broken
from .run import Ran, Run

__all__ = ["Broken", "Ran", "Run"]
