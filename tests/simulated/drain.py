"""The end of a round: transactions end, and one reader reads every log to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.testing.simulation.cluster.client import BACKOFF_S, Client, Unreachable
from odradek.testing.simulation.transport import Address

from compat_tests.histories.client import Key
from compat_tests.histories.operation import ASSIGN, OK, POLL, RECORDER, Content, Operation
from compat_tests.histories.recorder import Recorder, now_ns

_LIST_VERSION, _LATEST = 6, -1
_UNCOMMITTED, _COMMITTED = 0, 1
_BATCH = 500


class Drain:
    def __init__(self, bootstrap: list[Address], recorder: Recorder) -> None:
        self._bootstrap, self._recorder = bootstrap, recorder
        self._clients: dict[str, Client] = {}

    async def run(self, keys: Sequence[Key]) -> None:
        """Reads all committed records, and writes down that the history has them."""
        ends = {key: await self.end(key) for key in keys}
        consumer = AIOKafkaConsumer(
            bootstrap_servers=[f"{host}:{port}" for host, port in self._bootstrap],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        began = now_ns()
        await consumer.start()
        places = {TopicPartition(key.topic, key.partition): key for key in keys}
        consumer.assign(list(places))
        for place in places:
            consumer.seek(place, 0)
        self._recorder.add(Operation(RECORDER, ASSIGN, OK, began, now_ns(), {str(key): 0 for key in keys}, "aiokafka"))
        while [place for place, key in places.items() if await consumer.position(place) < ends[key]]:
            began = now_ns()
            found: dict[str, Content] = {
                f"{place.topic}/{place.partition}": [[one.offset, one.value.decode()] for one in records]
                for place, records in (await consumer.getmany(timeout_ms=500, max_records=_BATCH)).items()
            }
            self._recorder.add(Operation(RECORDER, POLL, OK, began, now_ns(), [["poll", found]], "aiokafka"))
        await consumer.stop()
        self._recorder.settings(drained=True)

    async def end(self, key: Key) -> int:
        """Returns the end of the log when no transaction is open in it."""
        while True:
            ends = [await self._listed(key, isolation) for isolation in (_UNCOMMITTED, _COMMITTED)]
            if ends[0] is not None and ends[0] == ends[1]:
                return ends[0]
            await asyncio.sleep(BACKOFF_S)

    async def _listed(self, key: Key, isolation: int) -> int | None:
        client = self._clients.setdefault(key.topic, Client(self._bootstrap, key.topic))
        leader = await client.leader(key.partition, "drain")
        place = ListOffsetsPartition(key.partition, leader.epoch, _LATEST)
        request = ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(key.topic, [place])])
        try:
            response = await client.ask(leader.address, request, _LIST_VERSION, "drain")
        except Unreachable:
            response = None
        found = None if response is None else response.topics[0].partitions[0]
        if found is None or found.error_code:
            client.forget(key.partition)
            return None
        return int(found.offset)
