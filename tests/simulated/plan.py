"""The plan of a seed: how long, which workloads, faults, changes and buggify points, and the settings of its cluster.

Swarm testing: each seed turns a random half of each off, so that the others meet more often.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from odradek.buggify import POINTS
from odradek.testing.simulation.cluster.faults import KINDS
from odradek.testing.simulation.cluster.operator import CHANGES

#: The workloads, of which a seed runs half, and always the queue.
QUEUE_WORK = "queue"
TRANSACTIONS, GROUPS, COORDINATORS = "transactions", "groups", "coordinators"
CHAIN, SHARE, RECREATION = "chain", "share", "recreation"
WORKLOADS = (TRANSACTIONS, GROUPS, COORDINATORS, CHAIN, SHARE, RECREATION)
#: The simulated time of a seed, before its end is checked. Few seeds are long.
_HOURS = ((0.1, 0.3), (0.3, 1.0), (1.0, 2.0))
#: Work is dense in a burst; between bursts, pauses are so many times longer.
_BURST_S = (15.0, 60.0)
_QUIET_S = (120.0, 2400.0)
_STRETCHES = (300.0, 1000.0, 3000.0)
#: The longest pause that a stretch makes of a shorter one.
_PAUSE_S = 120.0
#: Long quiet stretches, with pauses in which what their settings let expire does: producer ids, transactional ids,
#: connections, sessions of groups.
_LONG_HOURS = ((3.0, 10.0), (10.0, 30.0))
_LONG_QUIET_S = (1800.0, 20_000.0)
_LONG_STRETCHES = (10_000.0, 100_000.0)
_LONG_PAUSE_S = 5_000.0
_EXPIRING = {
    "producer.id.expiration.ms": "900000",
    "producer.id.expiration.check.interval.ms": "60000",
    "transactional.id.expiration.ms": "1800000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "60000",
}
#: Settings of short seeds: the whole range, with Kafka's own waits of 500 ms.
_BRISK = {
    "broker.heartbeat.interval.ms": ("2000", "6000"),
    "broker.session.timeout.ms": ("9000", "18000"),
    "replica.fetch.wait.max.ms": ("500", "5000", "10000"),
    "replica.lag.time.max.ms": ("15000", "30000"),
    "controller.quorum.fetch.timeout.ms": ("2000", "10000"),
}
#: Settings of longer seeds: an idle hour has few requests that only ask again. Responses with records do not wait for them.
_SPARING = {
    "broker.heartbeat.interval.ms": ("3000", "6000"),
    "broker.session.timeout.ms": ("18000",),
    "replica.fetch.wait.max.ms": ("5000", "10000"),
    "replica.lag.time.max.ms": ("15000", "30000"),
    "controller.quorum.fetch.timeout.ms": ("10000",),
    "controller.quorum.request.timeout.ms": ("5000",),
    "metadata.max.idle.interval.ms": ("5000", "20000"),
    "replica.high.watermark.checkpoint.interval.ms": ("5000",),
    "leader.imbalance.check.interval.seconds": ("30",),
}
#: The longest seed with brisk settings.
_BRISK_S = 0.3 * 3600
_PROPERTIES = {
    "transaction.state.log.num.partitions": "2",
    "group.min.session.timeout.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}


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
    workloads: Collection[str] = WORKLOADS
    changes: Collection[str] = ()
    #: The longest pause of a worker.
    pause_s: float = _PAUSE_S
    #: Whether waits of idle requests are long.
    is_sparing: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return sum(phase.seconds for phase in self.phases)


@dataclass(frozen=True)
class Given:
    """The parts of a plan that the seed does not draw. None or nothing: it draws them."""

    seconds: float | None = None
    faults: Collection[str] = ()
    workloads: Collection[str] = ()
    #: Whether quiet stretches last for hours.
    is_long: bool = False


def draw(seed: int, given: Given = Given()) -> Plan:
    """Returns the plan of a seed."""
    rng = Random(f"plan {seed}")
    seconds = given.seconds
    if seconds is None:
        seconds = rng.uniform(*rng.choice(_LONG_HOURS if given.is_long else _HOURS)) * 3600
    is_sparing = seconds > _BRISK_S
    choices = _SPARING if is_sparing else _BRISK
    properties = {**_PROPERTIES, **{key: rng.choice(values) for key, values in choices.items()}}
    return Plan(
        seed,
        _phases(rng, seconds, is_long=given.is_long),
        given.faults or _half(rng, KINDS),
        _half(rng, POINTS),
        given.workloads or _half(rng, WORKLOADS),
        _half(rng, CHANGES),
        _LONG_PAUSE_S if given.is_long else _PAUSE_S,
        is_sparing,
        {**properties, **_EXPIRING} if given.is_long else properties,
    )


def _half(rng: Random, names: Sequence[str]) -> Sequence[str]:
    return rng.sample(names, (len(names) + 1) // 2)


def _phases(rng: Random, seconds: float, *, is_long: bool) -> list[Phase]:
    quiet_s, stretches = (_LONG_QUIET_S, _LONG_STRETCHES) if is_long else (_QUIET_S, _STRETCHES)
    phases: list[Phase] = []
    left = seconds
    while left > 0:
        burst = min(left, rng.uniform(*_BURST_S))
        phases.append(Phase(burst, 1.0, rng.random() < 0.9, mends=False))
        left -= burst
        if left > 0:
            quiet = min(left, rng.uniform(*quiet_s))
            phases.append(Phase(quiet, rng.choice(stretches), rng.random() < 0.1, mends=rng.random() < 0.7))
            left -= quiet
    return phases
