"""aiokafka as a client of a workload, on the loop in simulated time. Half of its ends are crashes."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from odradek.testing.simulation.incarnations import OUTSIDE, OWNER, Incarnation
from odradek.testing.simulation.loop import VirtualLoop
from odradek.testing.simulation.network import SimulatedNetwork

from compat_tests.histories.aiokafka_client import AiokafkaClient, Runner
from compat_tests.histories.client import OPERATION_S
from tests.simulated.blocking import wait_for

T = TypeVar("T")
_CRASH_SHARE = 0.5
#: Settings that a client draws. A fetch gets new records at once, so waits below Kafka's own of 500 ms only cost time.
_BRISK = {
    "fetch_max_wait_ms": (500, 2_000, 8_000),
    "session_timeout_ms": (6_000, 30_000),
    "heartbeat_interval_ms": (1_500, 3_000),
    "metadata_max_age_ms": (5_000, 300_000),
    "consumer_timeout_ms": (200,),
}
#: Those of clients of a long seed, whose idle hours have few requests.
_SPARING = {
    "fetch_max_wait_ms": (8_000, 30_000),
    "session_timeout_ms": (30_000, 45_000),
    "heartbeat_interval_ms": (3_000, 9_000),
    "metadata_max_age_ms": (60_000, 300_000),
    "consumer_timeout_ms": (1_000, 10_000),
}
#: Whether clients that are made in this context draw sparing settings.
IS_SPARING: contextvars.ContextVar[bool] = contextvars.ContextVar("is sparing", default=False)
_METADATA_UPDATE = AIOKafkaClient._metadata_update


def brokers_in_order(cluster: ClusterMetadata) -> list[object]:
    """Replaces a method of aiokafka that returns a set, whose order the address of None decides before Python 3.12."""
    return list((cluster._brokers or cluster._bootstrap_brokers).values())


async def paced_metadata_update(client: AIOKafkaClient, cluster: ClusterMetadata, topics: object) -> bool:
    """Replaces a method of aiokafka, which asks again at once while a partition has no leader: 100 times a second for as
    long as a cut lasts. Clients of Kafka wait for retry.backoff.ms.
    """
    loop = asyncio.get_running_loop()
    await asyncio.sleep(max(0.0, vars(client).get("_paced_until", 0.0) - loop.time()))
    client._paced_until = loop.time() + client._retry_backoff
    return bool(await _METADATA_UPDATE(client, cluster, topics))


def _choices() -> Mapping[str, Sequence[int]]:
    return _SPARING if IS_SPARING.get() else _BRISK


class SimulatedRunner(Runner):
    """Runs coroutines as a program outside of all nodes, which can crash."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.rng = Random(loop.rng.random())
        self._loop = loop
        self._life = Incarnation(OUTSIDE)
        self._context = contextvars.copy_context()
        self._context.run(OWNER.set, self._life)

    @property
    def is_alive(self) -> bool:
        return self._life.is_alive

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        return wait_for(self._within_time(self._loop.create_task(work, context=self._context)))

    async def _within_time(self, task: asyncio.Task[T]) -> T:
        return await asyncio.wait_for(task, OPERATION_S)

    def close(self) -> None:
        self._life.is_alive = False
        network = self._loop.network
        assert isinstance(network, SimulatedNetwork)
        network.ended(self._life)


class SimulatedAiokafka(AiokafkaClient):
    def _make_runner(self) -> Runner:
        runner = SimulatedRunner()
        self._crashes = runner.rng.random() < _CRASH_SHARE
        drawn = {name: runner.rng.choice(values) for name, values in _choices().items()}
        self._settings["metadata_max_age_ms"] = drawn.pop("metadata_max_age_ms")
        self._reader_settings.update(drawn)
        return runner

    def close(self) -> None:
        if not self._crashes:
            super().close()
            return
        for one in (self._consumer, self._producer):
            if one is not None:
                one._closed = True  # or its end, whenever Python frees it, is logged as a mistake
        self._runner.close()
