"""Faults: killed, paused and restarted processes, power loss, bad disks and links, and clocks that jump and drift."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from itertools import permutations
from random import Random
from typing import TYPE_CHECKING

from ..incarnations import OUTSIDE

if TYPE_CHECKING:
    from ..world import Node
    from .nodes import SimulatedCluster
    from .watch import Watch

#: The worst link faults: this latency, and this share of deliveries that break their connection.
_SLOW_S = ((0.02, 0.3), (0.2, 2.5))
_LOOSE = (0.02, 0.2)
#: Less than an hour, beyond which records from the future are rejected (message.timestamp.after.max.ms).
_SKEWS_S = (0.0, 0.3, 5.0, 60.0, 1700.0)
_DRIFTS = (1e-4, 1e-3, 1e-2)
_STOP_DEADLINE_S = 20.0
_LOOK_S = 0.25
#: The time in which a node of a rolling restart serves again, or the restart ends.
_SERVE_DEADLINE_S = 60.0
_PAUSES_S = (0.3, 2.0, 8.0, 30.0)
#: Bad disks: the duration of work on threads, the room that is left, and how many writes and syncs fail.
_SLOW_DISK_S = ((0.02, 0.5), (0.5, 5.0))
_ROOM_BYTES = (0, 100, 3_000)
_FAILING = (0.02, 0.3, 1.0)
_BAD_DISK_S = (1.0, 10.0, 30.0)


#: The kinds of faults, which `FaultInjector.counts` counts.
KINDS = (
    "kill",
    "power loss",
    "stop",
    "kill all",
    "isolate",
    "cut one way",
    "cut pair",
    "slow link",
    "lossy link",
    "reset",
    "clock jump",
    "clock drift",
    "pause",
    "rolling restart",
    "slow disk",
    "full disk",
    "failing disk",
)


#: The kinds from which a run without `names` draws: its seeds are known for the bugs that they find.
_DRAWN = KINDS[: KINDS.index("clock drift")]


class FaultInjector:
    """Injects faults, of the kinds in `names` or of a few that `rng` draws. `mend` ends them all."""

    def __init__(
        self, cluster: SimulatedCluster, watch: Watch, rng: Random, names: Collection[str] | None = None
    ) -> None:
        self._cluster = cluster
        self._node_ids = cluster.node_ids
        self._watch = watch
        self._network = cluster.simulation.network
        self._disk = cluster.simulation.disk
        self._rng = rng
        #: The number of faults of each kind.
        self.counts: Counter[str] = Counter()
        #: Scheduled actions, and stops in progress.
        self._later: list[asyncio.Task[None]] = []
        self._stopping: list[asyncio.Task[None]] = []
        self._kinds: list[tuple[int, Callable[[], None]]] = [
            (4, self._kill),
            (3, self._lose_power),
            (2, self._stop),
            (1, self._kill_all),
            (3, self._isolate),
            (3, self._cut_one_way),
            (2, self._cut_pair),
            (2, self._slow_down),
            (2, self._loosen),
            (3, self._reset),
            (3, self._jump),
            (2, self._drift),
            (4, self._pause),
            (1, self._restart_all),
            (2, self._slow_disk),
            (2, self._fill_disk),
            (2, self._fail_disk),
            (4, self._mend_links),
        ]
        *kinds, mending = self._kinds
        if names is None:
            #: A seed uses a few kinds of faults, so each occurs more often than if all were used.
            drawn = kinds[: len(_DRAWN)]
            kinds = rng.sample(drawn, rng.choice((2, 3, 5, len(drawn))))
        else:
            kinds = [kind for name, kind in zip(KINDS, kinds, strict=True) if name in names]
        self._kinds = [*kinds, mending]

    async def run(self, duration_s: float) -> None:
        loop, rng = asyncio.get_running_loop(), self._rng
        end = loop.time() + duration_s
        busy = rng.choice((0.4, 1.5, 4.0))
        while loop.time() < end:
            await asyncio.sleep(rng.uniform(0.05, 2 * busy))
            weights = [weight for weight, _ in self._kinds]
            rng.choices([kind for _, kind in self._kinds], weights)[0]()

    async def mend(self) -> None:
        """Ends all faults except clock offsets, which stay."""
        self._say("all faults end")
        for task in self._later:
            task.cancel()
        self._later.clear()
        self._network.mend()
        for node in self._cluster.nodes.values():
            node.drift(0.0)
            self._cluster.simulation.disk.mend(node.name)
            self._cluster.simulation.loop.thread_s.pop(node.name, None)
            node.resume()
        await asyncio.gather(*self._stopping)
        for node_id, node in self._cluster.nodes.items():
            if not node.is_running:
                self._cluster.start(node_id)

    def _say(self, what: str) -> None:
        self._cluster.trace.say("", what)

    def _start_in(self, seconds: float, node_id: int) -> None:
        async def start() -> None:
            await asyncio.sleep(seconds)
            if not self._cluster.nodes[node_id].is_running:
                self._cluster.start(node_id)

        self._later.append(asyncio.get_running_loop().create_task(start()))

    # ---- nodes

    def _kill(self) -> None:
        self._crash(self._rng.choice(self._node_ids), power=False)

    def _kill_all(self) -> None:
        self.counts["kill all"] += not self._somebody_has_lost
        for node_id in self._node_ids:
            self._crash(node_id, power=False)

    def _lose_power(self) -> None:
        """Injects a power loss. Nothing is synced, so a record is safe only while another ISR member has it that was
        not killed either: a killed broker counts as an unclean shutdown and is removed from the ISR (KIP-966).
        """
        node_id = self._rng.choice(self._node_ids)
        others_hold = all(
            {*registration.isr, *registration.elr} - {node_id}
            for registration in map(self._watch.registration, self._watch.histories)
            if registration is not None
        )
        if all(map(self._cluster.serves, self._node_ids)) and others_hold and self._disk.are_all_in_order:
            self._crash(node_id, power=True)

    @property
    def _somebody_has_lost(self) -> bool:
        """Returns whether a broker lost records and is not back in every ISR."""
        lost = [
            node_id for node_id in self._node_ids if self._watch.has_lost(node_id) or self._cluster.is_dark(node_id)
        ]
        return bool(lost) or any(
            set(registration.isr) != set(registration.replicas)
            for registration in map(self._watch.registration, self._watch.histories)
            if registration is not None and self._watch.lost
        )

    def _crash(self, node_id: int, *, power: bool) -> None:
        if self._cluster.nodes[node_id].is_running and not self._somebody_has_lost:
            self.counts["power loss" if power else "kill"] += 1
            self._cluster.crash(node_id, power=power)
            down_s = self._rng.choice((0.05, 0.5, 3.0, 12.0)) * self._rng.uniform(0.5, 1.5)
            self._start_in(down_s, node_id)

    def _stop(self) -> None:
        node_id = self._rng.choice(self._node_ids)

        async def stop() -> None:
            await self._cluster.stop(node_id, _STOP_DEADLINE_S)
            self._start_in(self._rng.uniform(0.1, 5), node_id)

        if self._cluster.serves(node_id) and not self._somebody_has_lost:
            self.counts["stop"] += 1
            self._stopping.append(asyncio.get_running_loop().create_task(stop()))

    def _restart_all(self) -> None:
        """Stops and starts a node after the other, as an upgrade does."""

        async def restart() -> None:
            for node_id in self._rng.sample(self._node_ids, len(self._node_ids)):
                if self._cluster.serves(node_id) and not self._somebody_has_lost:
                    await self._cluster.stop(node_id, _STOP_DEADLINE_S)
                    if not self._cluster.nodes[node_id].is_running:
                        self._cluster.start(node_id)
                    await self._until_served(node_id)

        self.counts["rolling restart"] += 1
        self._say("all nodes are restarted, one after the other")
        self._stopping.append(asyncio.get_running_loop().create_task(restart()))

    async def _until_served(self, node_id: int) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _SERVE_DEADLINE_S
        while loop.time() < deadline and not self._cluster.serves(node_id):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)

    def _pause(self) -> None:
        self.counts["pause"] += 1
        node, seconds = self._node(), self._rng.choice(_PAUSES_S) * self._rng.uniform(0.5, 1.5)
        self._say(f"{node.name} is paused for {seconds:.1f} s")
        node.pause()
        if node.life is not None:
            asyncio.get_running_loop().call_later(seconds, node.life.resume)

    def _node(self) -> Node:
        return self._cluster.nodes[self._rng.choice(self._node_ids)]

    # ---- disks

    def _slow_disk(self) -> None:
        self.counts["slow disk"] += 1
        node, duration_s = self._node(), self._rng.choice(_SLOW_DISK_S)
        self._say(f"the disk of {node.name} takes {duration_s} s")
        self._cluster.simulation.loop.thread_s[node.name] = duration_s
        self._mend_disk_later(node)

    def _fill_disk(self) -> None:
        node, room_bytes = self._node(), self._rng.choice(_ROOM_BYTES)
        if not self._somebody_has_lost:
            self.counts["full disk"] += 1
            self._say(f"the disk of {node.name} has room for {room_bytes} bytes")
            self._disk.fill(node.name, room_bytes)
            self._mend_disk_later(node)

    def _fail_disk(self) -> None:
        node, likelihood = self._node(), self._rng.choice(_FAILING)
        if not self._somebody_has_lost:
            self.counts["failing disk"] += 1
            self._say(f"the disk of {node.name} fails with probability {likelihood}")
            self._disk.fail(node.name, likelihood)
            self._mend_disk_later(node)

    def _mend_disk_later(self, node: Node) -> None:
        """Ends what the disk has, and starts the node if it has halted."""
        seconds = self._rng.choice(_BAD_DISK_S) * self._rng.uniform(0.5, 1.5)
        node_id = next(number for number, one in self._cluster.nodes.items() if one is node)

        async def mend() -> None:
            await asyncio.sleep(seconds)
            self._say(f"the disk of {node.name} is in order")
            self._cluster.simulation.loop.thread_s.pop(node.name, None)
            self._disk.mend(node.name)
            if not node.is_running:
                self._cluster.start(node_id)

        self._later.append(asyncio.get_running_loop().create_task(mend()))

    # ---- clocks

    def _drift(self) -> None:
        self.counts["clock drift"] += 1
        node, rate = self._node(), self._rng.choice((-1, 1)) * self._rng.choice(_DRIFTS)
        self._say(f"the clock of {node.name} gains {rate:+.4f} s each second")
        node.drift(rate)

    def _jump(self) -> None:
        self.counts["clock jump"] += 1
        node = self._cluster.nodes[self._rng.choice(self._node_ids)]
        node.skew_s = self._rng.choice((-1, 1)) * self._rng.choice(_SKEWS_S)
        self._say(f"the clock of {node.name} is off by {node.skew_s:+.1f} s")

    # ---- links

    def _isolate(self) -> None:
        self.counts["isolate"] += 1
        node_id = self._rng.choice(self._node_ids)
        others = [f"n{other}" for other in self._node_ids if other != node_id]
        if self._rng.random() < 0.5:
            others.append(OUTSIDE)
        self._say(f"n{node_id} is cut off from {others}")
        self._network.isolate(f"n{node_id}", others)

    def _link(self) -> tuple[str, str]:
        names = [f"n{node_id}" for node_id in self._node_ids]
        return self._rng.choice([*permutations(names, 2), *((name, OUTSIDE) for name in names)])

    def _cut_one_way(self) -> None:
        self.counts["cut one way"] += 1
        link = self._link()
        self._say(f"{link} is cut")
        self._network.cut(*link)

    def _cut_pair(self) -> None:
        self.counts["cut pair"] += 1
        one, other = self._link()
        self._say(f"{one} and {other} are cut off from each other")
        self._network.isolate(one, [other])

    def _slow_down(self) -> None:
        self.counts["slow link"] += 1
        link, latency_s = self._link(), self._rng.choice(_SLOW_S)
        self._say(f"{link} takes {latency_s}")
        self._network.slow_down(*link, latency_s)

    def _loosen(self) -> None:
        self.counts["lossy link"] += 1
        link, likelihood = self._link(), self._rng.choice(_LOOSE)
        self._say(f"{link} loses connections with probability {likelihood}")
        self._network.loosen(*link, likelihood)

    def _reset(self) -> None:
        self.counts["reset"] += 1
        one, other = self._link()
        self._say(f"connections of {one} and {other} are reset")
        self._network.reset(one, other)

    def _mend_links(self) -> None:
        self._say("all links are restored")
        self._network.mend()
        self._cluster.mended()
