"""Metrics: counters, Kafka's names, and HTTP if a port is set."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import odradek
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from odradek.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from odradek.protocol.messages.streams_group_topology_description_update import UpdatedTopologyDescription
from odradek.server.observability import subsystem as metrics_http
from odradek.server.runtime.counters import Metrics, Times

from compat_tests.broker_process import free_port
from compat_tests.java.fetch import SPECIFICATION
from compat_tests.java.program import java_command
from compat_tests.oracle import QUICK_JVM, ApacheKafka
from compat_tests.recipes import eventually, make_topic
from compat_tests.streams import application
from compat_tests.wire import WireClient
from tests.server.harness.http import _DEADLINE_S, http, scrape
from tests.server.harness.share_groups import configure, produce
from tests.server.harness.share_member import ACCEPT, REJECT, RELEASE, Member

pytestmark = pytest.mark.usefixtures("sockets")

_SOURCE = Path(__file__).parent / "java" / "ListMetrics.java"
#: All clients may do everything, and decisions are counted.
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S)


# Counting.


def test_the_counters_of_a_deleted_topic_count_on_in_those_of_all() -> None:
    metrics = Metrics()
    metrics.topic("a").bytes_in += 5
    metrics.topic("b").bytes_in += 7
    metrics.drop_topic("a")
    metrics.drop_topic("never.was")
    assert list(metrics.topics()) == ["b"]
    assert metrics.all_topics().bytes_in == 12
    metrics.topic("a").bytes_in += 1
    assert metrics.topic("a").bytes_in == 1
    assert metrics.all_topics().bytes_in == 13


def test_a_quantile_is_the_upper_end_of_its_bucket() -> None:
    times = Times()
    assert times.quantile_ms(0.99) == 0.0
    for microseconds in [3] * 98 + [1000, 5_000_000]:
        times.add(microseconds * 1000)
    assert times.quantile_ms(0.5) == 0.004
    assert times.quantile_ms(0.99) == 1.024
    assert times.quantile_ms(0.999) == 8388.608
    assert (times.count, times.total_ns) == (100, (3 * 98 + 1000 + 5_000_000) * 1000)


def test_a_time_beyond_all_buckets_is_in_the_last() -> None:
    times = Times()
    times.add(1 << 62)
    assert times.buckets[-1] == 1


# Serving.


@pytest.mark.usefixtures("processes")
async def test_metrics_are_off_unless_a_port_is_set() -> None:
    async with odradek.Broker() as broker:
        assert broker.server.observability is None
    code = "import odradek.server.broker, sys; sys.exit('prometheus_client' in sys.modules)"
    assert (await asyncio.to_thread(run, sys.executable, "-c", code)).returncode == 0


@pytest.fixture
async def broker() -> AsyncIterator[odradek.Broker]:
    async with odradek.Broker(config={"odradek.metrics.port": 0, **AUTHORIZER}) as running:
        yield running


async def test_scrape_counts_requests_of_clients(broker: odradek.Broker) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    consumer = AIOKafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
    )
    await producer.start()
    for _ in range(20):
        await producer.send_and_wait("orders", b"x" * 100)
    await consumer.start()
    for _ in range(20):
        await consumer.getone()
    await consumer.commit()
    found = await scrape(broker)
    await consumer.stop()
    await producer.stop()

    traffic = "kafka_server_brokertopicmetrics_"
    assert found[traffic + 'messagesin_total{topic="orders"}'] == 20
    assert found[traffic + "messagesin_total"] >= 20
    assert found[traffic + 'bytesin_total{topic="orders"}'] > 2000
    assert found[traffic + 'bytesout_total{topic="orders"}'] >= found[traffic + 'bytesin_total{topic="orders"}']
    assert found[traffic + 'totalproducerequests_total{topic="orders"}'] == 20
    produced = [
        name for name in found if name.startswith('kafka_network_requestmetrics_requests_total{request="Produce"')
    ]
    assert sum(found[name] for name in produced) == 20
    assert found['kafka_network_requestmetrics_totaltimems_count{request="Produce"}'] == 1
    assert found['kafka_network_requestmetrics_totaltimems{quantile="0.99",request="Produce"}'] > 0
    assert found['kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT"}'] >= 2
    assert found["kafka_server_replicamanager_leadercount"] == found["kafka_server_replicamanager_partitioncount"] > 1
    assert found["kafka_server_replicamanager_underreplicatedpartitions"] == 0
    assert found['kafka_log_log_logendoffset{partition="0",topic="orders"}'] == 20
    assert found['kafka_log_log_size{partition="0",topic="orders"}'] > 2000
    assert found["kafka_controller_kafkacontroller_activecontrollercount"] == 1
    assert found["kafka_controller_kafkacontroller_globaltopiccount"] == 2
    assert found["kafka_coordinator_group_groupmetadatamanager_numgroupsstable"] == 1
    assert found["kafka_coordinator_group_groupmetadatamanager_numoffsets"] == 1
    coordinator = "kafka_server_group_coordinator_metrics_"
    assert found[coordinator + "offset_commit_count"] >= 1
    assert found[coordinator + "group_completed_rebalance_count"] == 1
    assert found[coordinator + 'classic_group_count{state="Stable"}'] == 1


async def test_each_pool_of_threads_has_its_metrics(broker: odradek.Broker) -> None:
    first, second = await scrape(broker), await scrape(broker)
    for pool in broker.server.node.pools:
        assert second[f'odradek_pool_threads{{pool="{pool.name}"}}'] == pool.size
        assert second[f'odradek_pool_active{{pool="{pool.name}"}}'] <= pool.size
        assert second[f'odradek_pool_queued{{pool="{pool.name}"}}'] == 0
    name = 'odradek_pool_tasks_total{pool="cpu"}'
    assert second[name] == first[name] + 1, "the text of the first scrape is made by a thread"


async def test_the_text_is_of_the_form_that_the_scraper_asks_for(broker: odradek.Broker) -> None:
    _, headers, body = await http(broker, "GET /metrics?x=1 HTTP/1.0\r\n\r\n")
    assert "text/plain" in headers
    assert "# TYPE kafka_server_brokertopicmetrics_bytesin_total counter" in body
    accept = "Accept: application/openmetrics-text; version=1.0.0"
    _, headers, body = await http(broker, f"GET /metrics HTTP/1.1\r\n{accept}\r\n\r\n")
    assert "application/openmetrics-text" in headers
    assert body.endswith("# EOF\n")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [("GET /", "404"), ("GET /metrics/x", "404"), ("POST /metrics", "405"), ("", "405"), ("HEAD /metrics", "200")],
)
async def test_nothing_else_is_served(broker: odradek.Broker, request_line: str, status: str) -> None:
    line, _, body = await http(broker, f"{request_line} HTTP/1.1\r\n\r\n")
    assert line.split()[1] == status
    assert "kafka_" not in body


async def test_a_request_that_never_ends_is_cut_off(broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await http(broker, "GET /metrics HTTP/1.1\r\n" + "X: y\r\n" * 10_000) == ("", "", "")
    monkeypatch.setattr(metrics_http, "_REQUEST_DEADLINE_S", 0.01)
    assert await http(broker, "GET /metrics HTTP/1.1\r\n") == ("", "", "")


async def test_an_address_that_is_taken_is_named(broker: odradek.Broker) -> None:
    assert broker.server.observability is not None
    port = broker.server.observability.address[1]
    with pytest.raises(OSError, match=rf"cannot serve metrics on 127\.0\.0\.1:{port}"):
        async with odradek.Broker(config={"odradek.metrics.port": port}):
            pass


# Groups.


def share(bootstrap: str, topic: str) -> Member:
    """Returns a member of a share group that has accepted one record, released one, rejected one, and keeps two."""
    topic_id = make_topic(bootstrap, topic)
    configure(bootstrap, topic)
    produce(bootstrap, topic, 5)
    member = Member(bootstrap, topic, topic, [(topic_id, 0)])
    assert eventually(member.take, what="records are given out") == [(0, 4, 1)]
    assert member.acknowledge((0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, REJECT)).error_code == 0
    assert member.acknowledge((0, 0, ACCEPT), (1, 1, ACCEPT)).error_code == ErrorCode.INVALID_RECORD_STATE
    return member


async def test_scrape_has_metrics_of_share_groups(broker: odradek.Broker) -> None:
    member = await asyncio.to_thread(share, broker.bootstrap_servers, "shared")
    found = await scrape(broker)
    coordinator, traffic = "kafka_server_group_coordinator_metrics_", "kafka_server_brokertopicmetrics_"
    assert found[coordinator + 'group_count{protocol="share"}'] == 1
    assert sum(found[f'{coordinator}share_group_count{{state="{state}"}}'] for state in ("Stable", "Empty")) == 1
    assert found[coordinator + "share_group_rebalance_count"] >= 1
    for kind, count in {"Accept": 1, "Release": 1, "Reject": 1, "Renew": 0}.items():
        name = f'kafka_server_sharegroupmetrics_recordacknowledgements_total{{ackType="{kind}"}}'
        assert found[name] == count
    assert found[traffic + 'totalsharefetchrequests_total{topic="shared"}'] >= 1
    assert found[traffic + 'failedsharefetchrequests_total{topic="shared"}'] == 0
    assert found[traffic + 'totalshareacknowledgementrequests_total{topic="shared"}'] == 2
    assert found[traffic + 'failedshareacknowledgementrequests_total{topic="shared"}'] == 1
    assert found["kafka_server_share_coordinator_metrics_write_total"] >= 1
    assert found['kafka_server_share_coordinator_metrics_num_partitions{state="active"}'] > 0
    # The accepted record is below the start offset, the rejected one above it.
    place = '{group="shared",partition="0",topic="shared"}'
    names = ("inflightmessagecount", "inflightbatchcount", "acquisitionlocktimeout_total")
    assert [found[f"kafka_server_sharepartitionmetrics_{name}{place}"] for name in names] == [3, 3, 0]
    assert found["kafka_server_sharesessioncache_sharesessionscount"] == 1
    assert found["kafka_server_sharesessioncache_sharepartitionscount"] == 1
    member.close()


async def test_scrape_has_metrics_of_topology_descriptions(broker: odradek.Broker) -> None:
    def execute() -> None:
        make_topic(broker.bootstrap_servers, application.TOPIC)
        with WireClient(broker.bootstrap_servers) as client:
            find = FindCoordinatorRequest(key_type=0, coordinator_keys=[application.GROUP])
            eventually(lambda: not client.call(find, 6).coordinators[0].error_code, what="there is a coordinator")
            eventually(lambda: not client.call(application.join(), 1).error_code, what="it has joined")
            assert client.call(application.describe(UpdatedTopologyDescription(subtopologies=[])), 0).error_code == 0
            ask = StreamsGroupDescribeRequest(group_ids=[application.GROUP], include_topology_description=True)
            assert client.call(ask, 1).groups[0].error_code == 0
            leave = StreamsGroupHeartbeatRequest(
                group_id=application.GROUP, member_id=application.MEMBER, member_epoch=-1
            )
            assert client.call(leave, 1).error_code == 0
            gone = client.call(DeleteGroupsRequest(groups_names=[application.GROUP]), 2)
            assert gone.results[0].error_code == 0

    await asyncio.to_thread(execute)
    found = await scrape(broker)
    prefix = "kafka_server_group_coordinator_metrics_streams_group_"
    for what in ("set_success", "get_success", "delete_success"):
        assert found[f"{prefix}topology_description_{what}_count"] == 1, what
    assert found[f"{prefix}topology_description_set_error_count"] == 0
    assert found[f"{prefix}rebalance_count"] >= 1
    assert found[f'{prefix}count{{state="Empty"}}'] == 0


# Names.


def exported(line: str) -> set[str]:
    """Returns the names that the JMX exporter's usual rules give to one attribute of one of Kafka's MBeans."""
    domain, kind, name, attribute = line.split("\t")
    if not name:
        return {re.sub(r"\W", "_", f"{domain}_{kind}_{attribute}").lower()}
    base = re.sub(r"\W", "_", f"{domain}_{kind}_{name}").lower()
    return {f"{base.removesuffix('persec')}_total" if attribute == "Count" else base}


@pytest.mark.oracle
async def test_every_metric_has_the_name_of_one_of_kafkas(
    java_tools: None, tmp_path: Path, broker: odradek.Broker
) -> None:
    port = free_port()
    agent = f"-Dcom.sun.management.jmxremote.port={port}", "-Dcom.sun.management.jmxremote.host=127.0.0.1"
    open_to_all = "-Dcom.sun.management.jmxremote.authenticate=false", "-Dcom.sun.management.jmxremote.ssl=false"
    hostname = "-Djava.rmi.server.hostname=127.0.0.1"
    with ApacheKafka(
        tmp_path, AUTHORIZER, jvm=(*QUICK_JVM, *agent, *open_to_all, hostname), version=SPECIFICATION
    ) as kafka:
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            await producer.send_and_wait("t", b"x")
        servers = (kafka.bootstrap, broker.bootstrap_servers)
        members = [await asyncio.to_thread(share, bootstrap, "shared") for bootstrap in servers]
        listed = await asyncio.to_thread(run, *java_command(_SOURCE, str(port), version=None))
    assert listed.returncode == 0, listed.stderr
    theirs = set().union(*map(exported, listed.stdout.splitlines()))
    ours = {re.sub(r"\{.*", "", name) for name in await scrape(broker) if name.startswith("kafka_")}
    for member in members:
        member.close()
    assert len(ours) > 80
    summary = "kafka_network_requestmetrics_totaltimems"
    assert summary in theirs
    assert ours - theirs - {f"{summary}_count", f"{summary}_sum"} == set()
