"""The plan of a seed: how long, which faults and buggify points, and the settings of its cluster.

Swarm testing: each seed turns a random half of the faults and of the points off, so that the others meet more often.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from odradek.buggify import POINTS
from odradek.testing.simulation.cluster.faults import KINDS

#: The simulated time of a seed, before its end is checked. Few seeds are long.
_HOURS = ((0.1, 0.3), (0.3, 1.0), (1.0, 2.0))
#: Work is dense in a burst; between bursts, pauses are so many times longer.
_BURST_S = (15.0, 60.0)
_QUIET_S = (120.0, 2400.0)
_STRETCHES = (300.0, 1000.0, 3000.0)
#: Settings with few requests in an idle hour, as of a large cluster, or those of the whole range.
_IDLE = {
    "broker.heartbeat.interval.ms": ("2000", "6000"),
    "broker.session.timeout.ms": ("9000", "18000"),
    "replica.fetch.wait.max.ms": ("500", "5000", "10000"),
    "replica.lag.time.max.ms": ("15000", "30000"),
    "controller.quorum.fetch.timeout.ms": ("2000", "10000"),
}
_PROPERTIES = {"transaction.state.log.num.partitions": "2", "group.min.session.timeout.ms": "1000"}


@dataclass(frozen=True)
class Phase:
    """A part of a seed's time. `stretch`: how many times longer the pauses of the workers are."""

    seconds: float
    stretch: float
    #: Whether faults come in it, and whether those of before it end first.
    has_faults: bool
    mends: bool


@dataclass(frozen=True)
class Plan:
    seed: int
    phases: Sequence[Phase]
    faults: Collection[str]
    points: Collection[str]
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return sum(phase.seconds for phase in self.phases)


def draw(seed: int, seconds: float | None = None, faults: Collection[str] = ()) -> Plan:
    """Returns the plan of a seed. `seconds`, `faults`: the simulated time and the faults, else the seed draws them."""
    rng = Random(f"plan {seed}")
    if seconds is None:
        seconds = rng.uniform(*rng.choice(_HOURS)) * 3600
    half = rng.sample(KINDS, (len(KINDS) + 1) // 2)
    chosen = rng.sample(POINTS, (len(POINTS) + 1) // 2)
    properties = {**_PROPERTIES, **{key: rng.choice(values) for key, values in _IDLE.items()}}
    return Plan(seed, _phases(rng, seconds), faults or half, chosen, properties)


def _phases(rng: Random, seconds: float) -> list[Phase]:
    phases: list[Phase] = []
    left = seconds
    while left > 0:
        burst = min(left, rng.uniform(*_BURST_S))
        phases.append(Phase(burst, 1.0, rng.random() < 0.9, mends=False))
        left -= burst
        if left > 0:
            quiet = min(left, rng.uniform(*_QUIET_S))
            phases.append(Phase(quiet, rng.choice(_STRETCHES), rng.random() < 0.1, mends=rng.random() < 0.7))
            left -= quiet
    return phases
