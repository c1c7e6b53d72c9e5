"""Quota windows, a clock that tests advance, and changes of quotas over the wire."""

from __future__ import annotations

import time
from typing import Any

import odradek
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryDataRequest, OpData
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.quota_entities import EntityData

from compat_tests.wire import WireClient
from tests.server.harness.data_path import DataPath, batch_of

#: Two windows of a second: a rate is over one second at least, which keeps these tests short.
WINDOWS = {"quota.window.num": "2", "controller.quota.window.num": "2"}


class StillClock:
    """The clock of a broker, which the test advances: rates and throttle times do not depend on the speed of the machine."""

    def __init__(self, broker: odradek.Broker) -> None:
        self._clock = broker.server.node.clock
        self._before = self._clock._seconds
        self._now_s = self._before()

    def advance(self, time_ms: int) -> None:
        self._now_s += time_ms / 1000

    def __enter__(self) -> StillClock:
        self._clock._seconds = lambda: self._now_s
        return self

    def __exit__(self, *_: object) -> None:
        self._clock._seconds = self._before


def change(client: WireClient, entity: dict[str, str | None], **quotas: float | None) -> None:
    ops = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()]
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    request = AlterClientQuotasRequest([EntryDataRequest(entity=parts, ops=ops)], False)
    (entry,) = client.call(request, 1).entries
    assert entry.error_code == 0, entry


def lasted_ms(began_s: float) -> float:
    """Returns the time since `began_s`, rounded up: a timer of uvloop counts whole milliseconds and may fire one early."""
    return (time.monotonic() - began_s) * 1000 + 2


def produced(path: DataPath, topic: str, size: int, acks: int = 1) -> Any:
    data = PartitionProduceData(0, batch_of(b"x" * size))
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(topic, partition_data=[data])])
    number = path.client.send(request, 12)
    return path.client.receive(request, 12, number) if acks else None
