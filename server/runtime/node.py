"""A node as one value: what each of its subsystems needs. Made once, before the first subsystem."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter, time
from typing import TYPE_CHECKING

from .background_tasks import BackgroundTasks
from .clock import Clock
from .counters import Metrics
from .damage_counters import DamageCounters
from .halt import Halt
from .late_imports import LateImports
from .log_lines import RepeatedLines
from .metadata_cache import MetadataCache
from .node_identity import NodeIdentity
from .thread_pools import ThreadPools
from .turn_budget import Stopwatch, TurnWatch
from .turns import Turns

if TYPE_CHECKING:
    from ...storage.directory import LogDirectory
    from ..config.broker_config import BrokerConfig

#: A clock, or what the seconds since 1970 are read from.
AnyClock = Clock | Stopwatch


@dataclass(frozen=True, slots=True)
class Node:
    """The parts of a node that belong to no subsystem."""

    config: BrokerConfig
    identity: NodeIdentity
    clock: Clock
    #: The publisher alone replaces its image.
    metadata: MetadataCache
    #: Lines of the log that peers provoke.
    lines: RepeatedLines
    pools: ThreadPools
    #: Failures of background work.
    background: BackgroundTasks
    halt: Halt
    metrics: Metrics
    damage: DamageCounters
    #: Turns of the loop that took too long, and the large requests that take turns.
    turn_watch: TurnWatch
    turns: Turns
    late_imports: LateImports
    #: The log directories; none before they are open.
    directories: list[LogDirectory]

    @classmethod
    def of(cls, config: BrokerConfig, *, clock: AnyClock = time, turn_clock: Stopwatch = perf_counter) -> Node:
        """Makes the parts. `clock`: seconds since 1970, or a whole clock. `turn_clock` times turns of the loop."""
        pools, turn_watch = ThreadPools(), TurnWatch(turn_clock)
        return cls(
            config=config,
            identity=NodeIdentity(config.node_id),
            clock=clock if isinstance(clock, Clock) else Clock(clock),
            metadata=MetadataCache(),
            lines=RepeatedLines(),
            pools=pools,
            background=BackgroundTasks(),
            halt=Halt(),
            metrics=Metrics(),
            damage=DamageCounters(),
            turn_watch=turn_watch,
            turns=Turns(turn_watch),
            late_imports=LateImports(pools.cpu),
            directories=[],
        )
