"""Hostile frames to simulated clusters, while nodes crash and links break: the cluster's invariants hold.

    python -m tests.hostile.simulated_frames --seeds 0-99

An attacker sends requests with fields at their edges (`fields.py`) and truncated, changed or random frames to listeners of
brokers and of controllers. It does not claim to be a node of the cluster: a quorum believes its members, as Kafka's does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import struct
import sys
import traceback
from functools import cache
from random import Random
from typing import Any

from odradek.protocol.schema import Message
from odradek.testing.simulation.cluster import Ran, Run
from odradek.testing.simulation.cluster.nodes import CLUSTER_ID, VOTER_IDS
from odradek.testing.simulation.cluster.workload import create_topic
from odradek.testing.simulation.transport import Address

from tests.hostile.fields import Case, cases
from tests.hostile.fields_encoding import frame_of
from tests.hostile.fields_world import World, is_destructive

TOPIC = "fields"
PARTITIONS = 3
#: Requests by which a node or an administrator changes the cluster's members, or removes replicas of a topic: a single
#: replica commits records that the others do not have.
LEFT_OUT = {"BrokerRegistration", "BrokerHeartbeat", "UpdateFeatures", "AlterPartitionReassignments"}
#: Requests that name another cluster id.
OF_QUORUM = {"Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter"}
#: The time between two frames of one attacker, in simulated seconds.
INTERVAL_S = 0.05
ATTACKERS = 3
PATIENCE_S = 0.3
_HASH_SEED = "0"


@cache
def all_cases(listener: str) -> list[Case]:
    """Returns the same cases for every seed: one edge of each field."""
    world = World(CLUSTER_ID, (*VOTER_IDS, 4), TOPIC, bytes(16), 1, 1)
    found = cases(listener, Random(0), 1, 0, world)
    return [case for case in found if case.api.name not in LEFT_OUT and not case.enveloped]


class Attacker:
    """Sends frames one after the other, each to a random node. It ignores rejected and broken connections."""

    def __init__(self, world: World, addresses: dict[str, list[Address]], rng: Random) -> None:
        self._world = world
        self._addresses = addresses
        self._rng = rng
        self.sent = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(0, 2 * INTERVAL_S))
            kind = self._rng.choice(list(self._addresses))
            frame = self._frame(kind)
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(PATIENCE_S):
                    await self._send(self._rng.choice(self._addresses[kind]), frame)

    async def _send(self, address: Address, frame: bytes) -> None:
        reader, writer = await asyncio.open_connection(*address)
        try:
            writer.write(frame)
            self.sent += 1
            (length,) = struct.unpack(">i", await reader.readexactly(4))
            await reader.readexactly(length)
        finally:
            writer.transport.abort()

    def _frame(self, kind: str) -> bytes:
        choice = self._rng.random()
        if choice < 0.1:
            return struct.pack(">i", self._rng.choice((-1, 0, 7, 100 << 20))) + self._rng.randbytes(30)
        if choice < 0.2:
            rubbish = struct.pack(">hh", self._rng.randrange(95), self._rng.randrange(20)) + self._rng.randbytes(60)
            return struct.pack(">i", len(rubbish)) + rubbish
        frame = self._case(kind)
        if choice < 0.35:
            return frame[: self._rng.randrange(len(frame))]
        return frame

    def _case(self, kind: str) -> bytes:
        while True:
            case = self._rng.choice(all_cases(kind))
            request = case.request(self._world, self.sent)
            if case.api.name in OF_QUORUM:
                request.cluster_id = "another"
            if not is_destructive(case.api, request, self._world) and not _claims_to_be_a_replica(request):
                return frame_of(case.api, case.version, request, 1, case.client_id)


def _claims_to_be_a_replica(request: Message) -> bool:
    """Returns whether the request names a replica: a leader believes a follower's offsets."""
    named = getattr(request, "replica_id", -1), getattr(getattr(request, "replica_state", None), "replica_id", -1)
    return type(request).__name__ in ("FetchRequest", "FetchSnapshotRequest", "AlterPartitionRequest") and any(
        not isinstance(node_id, int) or node_id >= 0 for node_id in named
    )


class HostileRun(Run):
    """A run of the cluster's simulation by seed, with attackers."""

    attackers: list[Attacker]

    def _put_to_work(self, group: asyncio.TaskGroup) -> None:
        super()._put_to_work(group)
        self.attackers = []
        self._attacking = group.create_task(self._attack())

    async def _attack(self) -> None:
        await create_topic(self._client(), TOPIC, PARTITIONS)
        topic = self._watch.images.newest.topic(TOPIC)
        assert topic is not None
        world = World(CLUSTER_ID, tuple(self._cluster.node_ids), TOPIC, topic.id, 1, 1)
        addresses: dict[str, list[Any]] = {
            "broker": list(self._cluster.bootstrap),
            "controller": [("127.0.0.1", 19090 + voter) for voter in VOTER_IDS],
        }
        async with asyncio.TaskGroup() as group:
            for _ in range(ATTACKERS):
                attacker = Attacker(world, addresses, self._dice())
                self.attackers.append(attacker)
                group.create_task(attacker.run())

    async def _come_to_the_end(self, group: asyncio.TaskGroup) -> None:
        self._attacking.cancel()
        await super()._come_to_the_end(group)


def execute(seed: int, duration_s: float, *, show: bool = False) -> tuple[Ran, int]:
    """Executes a run. Returns its hash and the number of hostile frames. Raises Broken."""
    run = HostileRun(seed, duration_s, print if show else None)
    ran = run.run()
    return ran, sum(attacker.sent for attacker in run.attackers)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.simulated_frames", description=__doc__)
    parser.add_argument("--seeds", default="0-9", help="one seed, or FIRST-LAST")
    parser.add_argument(
        "--duration-s", type=float, default=20.0, help="duration of the phase with faults, in virtual time"
    )
    parser.add_argument("--trace", action="store_true", help="print each event")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:  # decides the order of some sets, unlike the run's seed
        os.environ["PYTHONHASHSEED"] = _HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "tests.hostile.simulated_frames", *sys.argv[1:]])
    first, _, last = options.seeds.partition("-")
    failed = 0
    for seed in range(int(first), int(last or first) + 1):
        try:
            ran, sent = execute(seed, options.duration_s, show=options.trace)
        except Exception as failure:
            failed += 1
            traceback.print_exception(failure)
            print(f"seed {seed}: {failure}", flush=True)
        else:
            print(f"seed {seed}: {sent} hostile frames, {ran.acknowledged} batches acknowledged", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
