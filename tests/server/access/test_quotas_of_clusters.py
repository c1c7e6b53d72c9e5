"""Client quotas of a cluster: every broker enforces them, and the active controller those on changes of topics."""

from __future__ import annotations

import time
from collections.abc import Iterator

import odradek
import pytest
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from compat_tests.wire import WireClient
from tests.server.harness.data_path import wait_until
from tests.server.harness.quotas import WINDOWS, change, lasted_ms

pytestmark = pytest.mark.usefixtures("sockets")

UNKNOWN_TOPIC_OR_PARTITION = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[odradek.Cluster]:
    with odradek.Cluster(config=WINDOWS) as running:
        yield running


def bootstrap(cluster: odradek.Cluster, *, controller: bool) -> str:
    """Returns the address of the broker that is the active controller, or of a different broker."""
    found = next(one for one in cluster.servers.values() if one.controller.driver.is_active == controller)
    return found.addresses[0]


def test_a_client_of_another_broker_is_throttled_for_what_the_controller_counts(cluster: odradek.Cluster) -> None:
    address = bootstrap(cluster, controller=False)
    with WireClient(address, client_id="mutator") as client:
        change(client, {"client-id": "mutator"}, controller_mutation_rate=5)
        wait_until(
            lambda: all(one.node.metadata.image.client_quotas for one in cluster.servers.values()),
            "all brokers have it",
        )
        request = CreateTopicsRequest(topics=[CreatableTopic(name, 12, 1) for name in ("a", "b")], timeout_ms=10_000)
        began = time.monotonic()
        response = client.call(request, 7)
        assert sorted(topic.error_code for topic in response.topics) == [0, 89]
        # 2 tokens too many, at 5 a second.
        assert 200 < response.throttle_time_ms <= 400
        client.call(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
        assert lasted_ms(began) >= response.throttle_time_ms
    with WireClient(address, client_id="other") as other:
        request = CreateTopicsRequest(topics=[CreatableTopic("c", 12, 1)], timeout_ms=10_000)
        assert other.call(request, 7).throttle_time_ms == 0


def test_topics_that_are_made_by_their_first_use_count(
    cluster: odradek.Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with WireClient(bootstrap(cluster, controller=False), client_id="first-user") as client:
        change(client, {"client-id": "first-user"}, controller_mutation_rate=0.001)

        def metadata(name: str) -> int:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
            code: int = client.call(request, 12).topics[0].error_code
            return code

        wait_until(lambda: metadata("first") == 0, "the first topic is made")
        assert metadata("second") == UNKNOWN_TOPIC_OR_PARTITION
        wait_until(lambda: "could not create topic second" in caplog.text, "the second one is refused")
        assert all(one.node.metadata.image.topic("second") is None for one in cluster.servers.values())
