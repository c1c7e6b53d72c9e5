"""Client quotas over the wire: throttled clients, throttle times, and clients without a throttle."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import odradek
import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.server.network.connection import MUTED, Connection
from odradek.server.network.listener_kind import BROKER

from compat_tests.wire import ConnectionClosed, WireClient
from tests.server.harness.data_path import DataPath, batch_of, fetch_request, values_of, wait_until
from tests.server.harness.quotas import WINDOWS, StillClock, change, lasted_ms, produced

pytestmark = pytest.mark.usefixtures("sockets")

#: Prefix of the client ids that have quotas; other clients have none.
HELD = "held"
_names = iter(range(1, 10_000))


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker(config=WINDOWS) as running:
        yield running


@pytest.fixture
def still(broker: odradek.Broker) -> Iterator[StillClock]:
    with StillClock(broker) as clock:
        yield clock


@pytest.fixture
def held(broker: odradek.Broker, still: StillClock) -> Iterator[DataPath]:
    """A client for which a test sets quotas. The fixture removes them at the end."""
    found = DataPath(broker, client_id=f"{HELD}-{next(_names)}")
    yield found
    found.close()
    with WireClient(broker.bootstrap_servers) as client:
        for entity, quotas in list(broker.server.node.metadata.image.client_quotas.items()):
            change(client, dict(entity), **dict.fromkeys(quotas))


def limit(path: DataPath, **quotas: float | None) -> None:
    with WireClient(path.broker.bootstrap_servers) as client:
        change(client, {"client-id": path.client.client_id}, **quotas)


def call(client: WireClient) -> None:
    """Sends a request without work and receives its response."""
    client.call(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)


def test_producer_over_its_quota_gets_throttle_time_and_is_muted(held: DataPath) -> None:
    topic = held.topic()
    limit(held, producer_byte_rate=10_000)
    assert produced(held, topic, 5000).throttle_time_ms == 0
    began_s = time.monotonic()
    throttled = produced(held, topic, 8000)
    assert throttled.responses[0].partition_responses[0].error_code == 0
    # Some 13,300 bytes in a second: 330 ms too many.
    assert 300 < throttled.throttle_time_ms < 400
    call(held.client)
    assert lasted_ms(began_s) >= throttled.throttle_time_ms
    other = held.another_client()
    assert produced(other, topic, 8000).throttle_time_ms == 0
    assert not any(MUTED in one._holds for one in tuple(held.broker.server.network.listeners[0].connections))
    other.close()


def test_requests_that_are_already_sent_wait_for_the_throttle(held: DataPath) -> None:
    topic = held.topic()
    limit(held, producer_byte_rate=10_000)
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch_of(b"x" * 11_000))])]
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=data)
    began_s = time.monotonic()
    numbers = [held.client.send(request, 12) for _ in range(3)]
    reported = [held.client.receive(request, 12, number).throttle_time_ms for number in numbers]
    assert all(one > 100 for one in reported)
    assert lasted_ms(began_s) >= reported[0] + reported[1]


def test_a_producer_that_wants_no_response_is_held_too(held: DataPath) -> None:
    topic = held.topic()
    limit(held, producer_byte_rate=10_000)
    began_s = time.monotonic()
    produced(held, topic, 12_000, acks=0)
    call(held.client)
    assert lasted_ms(began_s) >= 200


def test_quotas_change_while_clients_are_connected(held: DataPath) -> None:
    topic = held.topic()
    assert produced(held, topic, 20_000).throttle_time_ms == 0
    limit(held, producer_byte_rate=10_000)
    assert produced(held, topic, 11_000).throttle_time_ms > 0
    limit(held, producer_byte_rate=1e9)
    assert produced(held, topic, 11_000).throttle_time_ms == 0
    limit(held, producer_byte_rate=None)
    dispatcher = held.broker.server.network.dispatchers[BROKER]
    assert not dispatcher._observes_all, "calls are metered without a quota"


def test_a_consumer_over_its_quota_gets_no_records_and_then_the_same_ones(held: DataPath, still: StillClock) -> None:
    topic = held.topic()
    for _ in range(2):
        produced(held, topic, 6000)
    limit(held, consumer_byte_rate=10_000)
    request = fetch_request(topic, 0)
    first = held.client.call(request, 12)
    assert len(values_of(first.responses[0].partitions[0])) == 1, "as much as the quota allows in a second"
    assert first.throttle_time_ms == 0
    request = fetch_request(topic, 1)
    began_s = time.monotonic()
    throttled = held.client.call(request, 12)
    assert (throttled.responses, throttled.error_code) == ([], 0)
    assert 200 < throttled.throttle_time_ms < 300
    still.advance(throttled.throttle_time_ms)
    again = held.client.call(request, 12)
    assert lasted_ms(began_s) >= throttled.throttle_time_ms
    assert len(values_of(again.responses[0].partitions[0])) == 1


def test_a_session_stays_as_it_was_when_its_fetch_is_throttled(held: DataPath, still: StillClock) -> None:
    topic = held.topic()
    for _ in range(2):
        produced(held, topic, 6000)
    limit(held, consumer_byte_rate=10_000)
    opened = held.client.call(fetch_request(topic, 0, session_epoch=0), 12)
    going_on = fetch_request(topic, 1, session_id=opened.session_id, session_epoch=1)
    throttled = held.client.call(going_on, 12)
    assert (throttled.responses, throttled.session_id) == ([], opened.session_id)
    still.advance(throttled.throttle_time_ms)
    going_on.session_epoch, going_on.topics = 2, []
    again = held.client.call(going_on, 12)
    assert len(values_of(again.responses[0].partitions[0])) == 1


def test_a_batch_larger_than_the_quota_is_fetched(held: DataPath) -> None:
    topic = held.topic()
    produced(held, topic, 30_000)
    limit(held, consumer_byte_rate=10_000)
    found = held.client.call(fetch_request(topic, 0), 12)
    assert len(values_of(found.responses[0].partitions[0])) == 1
    assert found.throttle_time_ms > 1000


def test_time_of_requests_is_limited(held: DataPath) -> None:
    limit(held, request_percentage=0.01)  # a tenth of a millisecond in a second
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(4, "1", None)])
    began_s = time.monotonic()
    reported = [held.client.call(request, 4).throttle_time_ms for _ in range(2)]
    assert max(reported) > 0
    assert max(reported) <= 1000, "at most a window"
    call(held.client)
    assert lasted_ms(began_s) >= sum(reported)


def mutate(path: DataPath, *names: str, version: int, partitions: int = 1) -> Any:
    topics = [CreatableTopic(name, partitions, 1) for name in names]
    return path.client.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), version)


def test_partitions_are_created_up_to_the_quota_and_then_refused(held: DataPath, still: StillClock) -> None:
    # A bucket of 2 s x 5. The broker creates the topic that overdraws it.
    limit(held, controller_mutation_rate=5)
    names = [f"{held.client.client_id}-{number}" for number in range(3)]
    began_s = time.monotonic()
    response = mutate(held, *names, version=7, partitions=11)
    codes = {topic.name: topic.error_code for topic in response.topics}
    assert [codes[name] for name in names] == [0, *[ErrorCode.THROTTLING_QUOTA_EXCEEDED] * 2]
    assert response.throttle_time_ms == 200
    call(held.client)
    assert lasted_ms(began_s) >= response.throttle_time_ms
    still.advance(response.throttle_time_ms)
    assert mutate(held, names[1], version=7).topics[0].error_code == 0


def test_older_versions_create_and_are_held(held: DataPath) -> None:
    limit(held, controller_mutation_rate=5)
    names = [f"{held.client.client_id}-{number}" for number in range(2)]
    response = mutate(held, *names, version=5, partitions=11)
    assert [topic.error_code for topic in response.topics] == [0, 0]
    assert response.throttle_time_ms == 2400


def test_new_partitions_and_deletions_count(held: DataPath) -> None:
    topics = [held.topic(partitions=2) for _ in range(2)]
    limit(held, controller_mutation_rate=2)
    grown = CreatePartitionsRequest(topics=[CreatePartitionsTopic(topics[0], 7, None)], timeout_ms=10_000)
    response = held.client.call(grown, 3)
    assert (response.results[0].error_code, response.throttle_time_ms) == (0, 0)
    deleted = DeleteTopicsRequest(topic_names=topics, timeout_ms=10_000)
    response = held.client.call(deleted, 5)
    assert {one.error_code for one in response.responses} == {ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    assert response.throttle_time_ms == 500
    assert {one.error_code for one in held.client.call(deleted, 4).responses} == {0}


def test_connections_over_the_quota_of_their_address_are_closed_unserved(held: DataPath) -> None:
    change(held.client, {"ip": "localhost"}, connection_creation_rate=3)
    rates = held.broker.server.access.quotas.connections
    wait_until(lambda: rates.is_on, "the host is resolved")
    served, rejected = 0, 0
    for _ in range(8):
        with WireClient(held.broker.bootstrap_servers, client_id="many") as client:
            try:
                call(client)
                served += 1
            except ConnectionClosed:
                rejected += 1
    assert served >= 3
    assert rejected >= 1
    change(held.client, {"ip": "localhost"}, connection_creation_rate=None)
    assert not rates.is_on


def test_quotas_hold_after_a_restart(tmp_path: Path) -> None:
    with odradek.Broker(data_dir=tmp_path, config=WINDOWS) as running, WireClient(running.bootstrap_servers) as client:
        change(client, {"client-id": None}, producer_byte_rate=10_000)
    with odradek.Broker(data_dir=tmp_path, config=WINDOWS) as running, StillClock(running) as clock:
        path = DataPath(running, client_id="any")
        topic = path.topic()
        assert produced(path, topic, 9000).throttle_time_ms == 0
        # Some 13,000 bytes in a second.
        assert 300 < produced(path, topic, 4000).throttle_time_ms < 400
        clock.advance(10_000)
        assert produced(path, topic, 9000).throttle_time_ms == 0
        path.close()


async def test_connection_that_ends_while_it_is_muted_keeps_no_timer() -> None:
    shared = SimpleNamespace(receiving=None, transfers=None, requests=None)
    listener: Any = SimpleNamespace(name="", dispatcher=None, max_frame_bytes=0, sasl=None, shared=shared)
    connection = Connection(listener)
    connection.mute(1000)
    connection.mute(10)  # a shorter throttle does not end a longer one
    first = connection._unmuting
    connection.mute(1_000_000_000)
    last = connection._unmuting
    assert first is not None
    assert last is not None
    assert first.cancelled()
    assert connection._holds == (MUTED,)
    connection._drop_holds()
    assert last.cancelled()
    assert connection._holds == ()
