"""A cluster of three whole nodes under seeded faults, looked at after each event: see invariants.py for what must hold.

    python -m odradek.server.testing.simulation --seeds 0-99
    python -m odradek.server.testing.simulation --seeds 7 --trace

A seed and a commit play the same run: the same trace, which its hash tells.
"""

from .invariants import Broken
from .run import Ran, Run

__all__ = ["Broken", "Ran", "Run"]
