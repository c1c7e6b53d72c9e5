"""A consumer over a quota that asks again as soon as it has its response: no quota lets it spin."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryDataRequest, OpData
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.quota_entities import EntityData

from compat_tests.odradek_process import OdradekProcess
from compat_tests.tiers import tiered
from compat_tests.wire import WireClient

pytestmark = pytest.mark.usefixtures("processes")

RECORDS, MEASURED_S, WAIT_MS = 4000, 3.0, 500
#: A response without records comes after `fetch.max.wait.ms`, or after the throttle, which ends with a window of a second.
MOST_EMPTY = int(2 * MEASURED_S * 1000 / WAIT_MS)
LIMITED, FREE = "greedy", "free"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    quota = {
        "remote.log.manager.fetch.max.bytes.per.second": "20000",
        "remote.log.manager.fetch.quota.window.num": "11",
    }
    folder = tmp_path_factory.mktemp("throttled")
    with OdradekProcess(folder / "node", tiered.properties(folder / "store") | quota) as running:
        tiered.make_topic(running.bootstrap)
        tiered.produce(running.bootstrap, tiered.values_of(RECORDS))
        tiered.await_local_start(running.data_dir, RECORDS // 2)
        limit_client(running)
        yield running


def limit_client(broker: OdradekProcess) -> None:
    entity = [EntityData(entity_type="client-id", entity_name=LIMITED)]
    entry = EntryDataRequest(entity=entity, ops=[OpData(key="consumer_byte_rate", value=20_000.0, remove=False)])
    with WireClient(broker.bootstrap) as client:
        assert {one.error_code for one in client.call(AlterClientQuotasRequest(entries=[entry]), 1).entries} == {0}


def fetched_sizes(broker: OdradekProcess, client_id: str, offset: int, min_bytes: int) -> list[int]:
    """Returns the bytes of records in each response that a client gets in MEASURED_S."""
    wanted = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)]
    topics = [FetchTopic(topic=tiered.TOPIC, partitions=wanted)]
    request = FetchRequest(max_wait_ms=WAIT_MS, min_bytes=min_bytes, max_bytes=50 << 20, topics=topics)
    until, sizes = time.monotonic() + MEASURED_S, list[int]()
    with WireClient(broker.bootstrap, client_id=client_id) as client:
        while time.monotonic() < until:
            found = [one for topic in client.call(request, 11).responses for one in topic.partitions]
            assert not any(one.error_code for one in found)
            sizes.append(sum(len(one.records or b"") for one in found))
    return sizes


@pytest.mark.parametrize("min_bytes", [0, 1])
@pytest.mark.parametrize("quota", ["remote reads", "client, store", "client, disk"])
def test_fetches_over_a_quota_get_few_empty_responses(broker: OdradekProcess, quota: str, min_bytes: int) -> None:
    offset = RECORDS - 10 if quota == "client, disk" else 0
    client_id = FREE if quota == "remote reads" else LIMITED
    sizes = fetched_sizes(broker, client_id, offset, min_bytes)
    assert len(sizes) > 0 and sizes.count(0) <= MOST_EMPTY, sizes
