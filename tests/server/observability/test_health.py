"""Health over HTTP (`/health/live`, `/health/ready`) and the lag of groups of every kind in the metrics."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

from compat_tests.broker_process import free_port
from compat_tests.recipes import eventually, make_topic
from compat_tests.streams import application
from compat_tests.wire import WireClient
from tests.server.harness.cluster_process import COMBINED, Cluster, scraped
from tests.server.harness.http import http, scrape
from tests.server.harness.http_responses import answered
from tests.server.harness.share_groups import configure, produce
from tests.server.harness.share_member import Member

pytestmark = pytest.mark.usefixtures("sockets")

LIVE, READY = "/health/live", "/health/ready"


@pytest.fixture
async def broker() -> AsyncIterator[odradek.Broker]:
    config: Any = {"odradek.metrics.port": 0, "odradek.metrics.lag.series": 3}
    async with odradek.Broker(config=config) as running:
        yield running


async def readiness(broker: odradek.Broker) -> tuple[str, dict[str, Any]]:
    status, headers, body = await http(broker, f"GET {READY} HTTP/1.1\r\nHost: x\r\n\r\n")
    assert "application/json" in headers
    return status.split()[1], json.loads(body)


# A single node.


async def test_serving_broker_is_live_and_ready(broker: odradek.Broker) -> None:
    status, _, body = await http(broker, f"GET {LIVE} HTTP/1.1\r\n\r\n")
    assert (status, json.loads(body)) == ("HTTP/1.1 200 OK", {"live": True})
    assert await readiness(broker) == ("200", {"ready": True, "node_id": 1, "not_ready": {}, "failing": {}})
    status, _, body = await http(broker, f"HEAD {READY} HTTP/1.1\r\n\r\n")
    assert (status, body) == ("HTTP/1.1 200 OK", "")


async def test_fenced_broker_is_live_and_not_ready(broker: odradek.Broker) -> None:
    server = broker.server
    for want_fence, status in ((True, "503"), (False, "200")):
        epoch, end = server.controller.driver.broker_epoch, server.controller.driver.controller.next_offset - 1
        fenced = asyncio.get_running_loop().create_future()
        server.controller.driver.submit(
            server.controller.registration.heartbeat(epoch, end, want_fence=want_fence), 2, fenced.set_result
        )
        assert (await fenced).error_code == 0
        found = await readiness(broker)
        assert found[0] == status
        assert found[1]["not_ready"] == ({"registration": "this broker is fenced"} if want_fence else {})
        assert (await http(broker, f"GET {LIVE} HTTP/1.1\r\n\r\n"))[0] == "HTTP/1.1 200 OK"


async def test_broker_with_an_offline_directory_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = ["a", str(tmp_path / "b")]
    async with odradek.Broker(config={"log.dirs": ",".join(paths), "odradek.metrics.port": 0}) as broker:
        assert (await readiness(broker))[0] == "200"
        broker.server.node.directories[1].fail()
        status, found = await readiness(broker)
    assert (status, found["not_ready"]) == ("503", {"directories": f"log directory {paths[1]} is offline"})


# A cluster.


@pytest.fixture
def cluster(processes: None, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, [COMBINED] * 3, offsets_topic_num_partitions="1")
    for node in cluster.nodes.values():
        node.properties["odradek.metrics.port"] = str(free_port())
    with cluster:
        yield cluster


def health(cluster: Cluster, node_id: int, path: str = READY) -> tuple[int, dict[str, Any]]:
    port = int(cluster.nodes[node_id].properties["odradek.metrics.port"])
    status, text = answered(port, path)
    return status, json.loads(text)


def lag_is_of_partitions_that_other_brokers_lead(cluster: Cluster) -> None:
    cluster.create_topic("orders", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for index in range(3):
        for _ in range(10):
            producer.produce("orders", b"x", partition=index)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "billing", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("orders", index, 3 + index) for index in range(3)], asynchronous=False)
    consumer.close()

    def lags() -> dict[str, float]:
        """Returns the lags of a group, which only its coordinator reports."""
        ports = [int(node.properties["odradek.metrics.port"]) for node in cluster.nodes.values()]
        found = [{k: v for k, v in scraped(port).items() if "billing" in k} for port in ports]
        assert sum(map(bool, found)) <= 1
        return next(filter(None, found), {})

    name = 'odradek_group_lag{group="billing",kind="classic",partition="%d",topic="orders"}'
    of_group = {'odradek_group_lag_sum{group="billing",kind="classic"}': 18.0}
    cluster.until(lambda: lags() == {name % 0: 7.0, name % 1: 6.0, name % 2: 5.0} | of_group, "the lag is known")


def nodes_without_a_majority_are_live_and_not_ready(cluster: Cluster) -> None:
    cluster.until(lambda: all(health(cluster, node)[0] == 200 for node in (1, 2, 3)), "all are ready")
    for node_id in (2, 3):
        cluster.nodes[node_id].kill()
    cluster.until(lambda: "quorum" in health(cluster, 1)[1]["not_ready"], "node 1 knows that it has no quorum")
    assert health(cluster, 1)[0] == 503
    assert health(cluster, 1, LIVE) == (200, {"live": True})
    cluster.nodes[1].kill()
    cluster.nodes[1].begin()
    # One node of three starts, and waits for the others.
    cluster.until(lambda: health(cluster, 1)[0] == 503, "it says that it is not ready")
    assert health(cluster, 1, LIVE)[0] == 200
    assert health(cluster, 1)[1]["not_ready"].keys() <= {"serving", "quorum", "registration"}
    for node_id in (2, 3):
        cluster.nodes[node_id].begin()
    for node_id in (1, 2, 3):
        cluster.until(lambda node=node_id: health(cluster, node)[0] == 200, f"node {node_id} is ready")


def node_that_hands_over_is_not_ready(cluster: Cluster) -> None:
    """Pauses the other nodes: a controlled shutdown waits for them, and the node still responds."""
    cluster.until(lambda: all(health(cluster, node)[0] == 200 for node in (1, 2, 3)), "all are ready")
    for node_id in (2, 3):
        cluster.nodes[node_id].pause()
    try:
        os.kill(cluster.nodes[1].pid, signal.SIGTERM)
        cluster.until(lambda: "stopping" in health(cluster, 1)[1]["not_ready"].get("serving", ""), "it is stopping")
    finally:
        for node_id in (2, 3):
            cluster.nodes[node_id].go_on()


def test_lag_and_health_of_a_cluster(cluster: Cluster) -> None:
    """Runs three scenarios on one cluster, because its start takes time."""
    lag_is_of_partitions_that_other_brokers_lead(cluster)
    nodes_without_a_majority_are_live_and_not_ready(cluster)
    node_that_hands_over_is_not_ready(cluster)


# Lag of the other kinds of groups, and the limit on the number of series.


def streams_lag(bootstrap: str) -> None:
    """Commits offset 2 of 5 in a streams group."""
    make_topic(bootstrap, application.TOPIC)
    produce(bootstrap, application.TOPIC, 5)
    with WireClient(bootstrap) as client:
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[application.GROUP])
        eventually(lambda: not client.call(find, 6).coordinators[0].error_code, what="there is a coordinator")
        joined = client.call(application.join(), 1)
        while joined.error_code in application.LATER:
            joined = client.call(application.join(), 1)
        assert joined.error_code == 0
        commit = OffsetCommitRequest(
            group_id=application.GROUP,
            generation_id_or_member_epoch=joined.member_epoch,
            member_id=application.MEMBER,
            topics=[
                OffsetCommitRequestTopic(
                    name=application.TOPIC,
                    partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=2)],
                )
            ],
        )
        response = client.call(commit, 9)
        assert response.topics[0].partitions[0].error_code == 0


def share_lag(bootstrap: str) -> None:
    """Acquires the five records in a share group, and acknowledges none of them."""
    topic_id = make_topic(bootstrap, "shared")
    configure(bootstrap, "shared")
    produce(bootstrap, "shared", 5)
    member = Member(bootstrap, "shared", "shared", [(topic_id, 0)])
    assert eventually(member.take, what="records are given out")
    member.close()


def consumer_lag(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": "next", "group.protocol": "consumer"}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["shared"])
    assert eventually(lambda: consumer.poll(1), what="a record is read")
    consumer.commit(asynchronous=False)
    consumer.close()


async def test_lag_of_each_kind_of_group_within_the_limit(broker: odradek.Broker) -> None:
    bootstrap = broker.bootstrap_servers
    for step in (streams_lag, share_lag, consumer_lag):
        await asyncio.to_thread(step, bootstrap)
    found = await scrape(broker)
    wanted = {
        ("application", "streams", "lines"): 3,
        ("shared", "share", "shared"): 5,
        ("next", "consumer", "shared"): 4,
    }
    for (group, kind, topic), lag in wanted.items():
        series = f'odradek_group_lag{{group="{group}",kind="{kind}",partition="0",topic="{topic}"}}'
        assert found[series] == lag, series
        assert found[f'odradek_group_lag_sum{{group="{group}",kind="{kind}"}}'] == lag
    assert found['odradek_group_lag_omitted{of="partition"}'] == found["odradek_group_lag_unknown"] == 0

    def commits() -> None:
        for number in range(4):
            consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"late-{number}"})
            consumer.commit(offsets=[TopicPartition("shared", 0, number)], asynchronous=False)
            consumer.close()

    await asyncio.to_thread(commits)
    found = await scrape(broker)
    shown = sorted(value for name, value in found.items() if name.startswith("odradek_group_lag{"))
    sums = [name for name in found if name.startswith("odradek_group_lag_sum")]
    assert shown == [4, 5, 5] and len(sums) == 3, "the largest of 3, 5, 4 and of 5, 4, 3, 2"
    assert found['odradek_group_lag_omitted{of="partition"}'] == found['odradek_group_lag_omitted{of="group"}'] == 4
