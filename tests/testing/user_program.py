"""A user's program with the public interface of the test kit, for type checkers; test_types.py has the expected results."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import assert_type

import odradek
from odradek.archive.relation import Relation
from odradek.columns.scan import Scan
from odradek.testing.cluster import Isolation
from odradek.testing.control_port import ControlPort
from odradek.testing.faults import Fault, Faults
from odradek.testing.groups_seen import GroupView
from odradek.testing.pytest_plugin import NewBroker
from odradek.testing.recording import Masking, record, replay
from odradek.testing.registry.server import SchemaRegistry
from odradek.testing.request_log import RequestLog, SeenRequest
from odradek.testing.simulation import Node, Process, SimulatedNetwork, Simulation
from odradek.testing.testcontainers import KafkaContainer, RedpandaContainer
from odradek.testing.topics_seen import SeenRecord, TopicView

Config = Mapping[str, str | int | float | bool]
Header = tuple[str, bytes | None]


def broker_of_a_plain_program(config: Config, folder: Path) -> None:
    users = {"admin": "admin-secret"}
    security = odradek.Security(protocol="SASL_SSL", mechanism="PLAIN", users=users, authorizer=True)
    with odradek.Broker(host="127.0.0.1", port=0, data_dir=folder, config=config, security=security) as broker:
        assert_type(broker, odradek.Broker)
        assert_type(broker.is_running, bool)
        assert_type(broker.bootstrap_servers, str)
        assert_type(broker.client_properties, dict[str, str])
        assert_type(broker.client_properties_file(user="admin"), Path)
        assert_type(broker.ca_file, Path)
        assert_type(broker.users, dict[str, str])
        assert_type(broker.server.node_id, int)
        broker.kill()
        broker.restart()
        broker.save(folder / "saved")
        broker.restore(folder / "saved")
        broker.reset()
        broker.reset_from_thread()
        control: ControlPort = broker.serve_control(port=0)
        assert_type(control.url, str)
        control.close()
    started = odradek.Broker(schema_registry=True).start().result
    assert_type(started, odradek.Broker)
    assert_type(started.schema_registry_url, str)
    started.stop()
    try:
        odradek.Broker(config={"num.partitions": -1}).start()
    except odradek.InvalidConfig as refused:
        assert_type(str(refused), str)


def faults_of_a_broker(broker: odradek.Broker) -> None:
    faults: Faults = broker.faults
    fault = faults.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=3, topic="orders", partition=0)
    assert_type(fault, Fault)
    assert_type(fault.count, int)
    assert_type(fault.times, int | None)
    assert_type(list(fault.struck), list[str])
    assert_type(fault.describe(), dict[str, object])
    fault.wait(count=1, timeout=2)
    fault.cancel()
    with faults.fail(["Produce", "Fetch"], ["NOT_LEADER_OR_FOLLOWER", None], after=True, version=(9, 12)) as entered:
        assert_type(entered, Fault)
    several = [
        faults.delay(None, seconds=0.1, after=True, client_id="check*"),
        faults.drop(0, after=True, nth=2),
        faults.hang("Fetch", after=True, node_id=1),
        faults.truncate("Fetch", size=-1, version=12),
        faults.throttle("Produce", seconds=1),
        faults.coordinator_moved(group="billing"),
        faults.coordinator_loading(transactional_id="t"),
        faults.leader_moved(topic="orders"),
        faults.pause(),
        faults.pause_brokers(node_id=1),
        faults.disk_full(topic="orders", times=1),
        faults.slow_disk(0.1, partition=0, nth=2, node_id=1),
    ]
    assert_type(several, list[Fault])
    assert_type([one.count for one in faults], list[int])
    assert_type(len(faults), int)
    faults.clear()


def time_of_a_broker(broker: odradek.Broker) -> None:
    broker.clock.advance(days=7, hours=1, minutes=1, seconds=1, milliseconds=1)
    broker.clock.jump(hours=-1)
    assert_type(broker.clock.offset_seconds, float)
    assert_type(broker.clock.now_ms, int)


def contents_of_a_broker(broker: odradek.Broker) -> None:
    topic: TopicView = broker.topic("orders")
    assert_type(topic.create(partitions=2, replication_factor=1, config={"retention.ms": "1"}).result, TopicView)
    assert_type(topic.name, str)
    assert_type(topic.exists, bool)
    assert_type(topic.end_offsets, dict[int, int])
    assert_type(topic.values(), list[bytes | None])
    headers: list[Header] = [("trace", b"1")]
    assert_type(topic.send(b"a", None, key=b"k", partition=1, headers=headers).result, int)
    assert_type(topic.append(0, [(0, b"k", b"v", headers)]).result, int)
    assert_type(topic.records(partition=0, committed=True), list[SeenRecord])
    first = topic.wait_for(records=1, timeout=5, committed=True)[0]
    assert_type(first, SeenRecord)
    assert_type((first.topic, first.partition, first.offset, first.timestamp_ms), tuple[str, int, int, int])
    assert_type((first.key, first.value), tuple[bytes | None, bytes | None])
    assert_type(first.headers, list[Header])

    group: GroupView = broker.group("billing")
    assert_type(group.group_id, str)
    assert_type(group.lag, int | None)
    assert_type(group.uncommitted, int)
    assert_type((group.lags, group.offsets), tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]])
    assert_type((group.state, group.members), tuple[str | None, list[str]])
    assert_type(group.wait_for(lag=0, state="Stable", members=1, timeout=5).result, None)

    requests: RequestLog = broker.requests
    assert_type(requests.lines(last=5), list[str])
    assert_type([one.api for one in requests], list[str])
    (asked, *_) = requests.matching("Produce", client_id="checkout", topic="orders")
    assert_type(asked, SeenRequest)
    assert_type((asked.time_ms, asked.node_id, asked.api, asked.version), tuple[int, int, str, int])
    assert_type((asked.client_id, asked.client_host), tuple[str | None, str])
    assert_type((asked.topics, asked.groups), tuple[tuple[str, ...], tuple[str, ...]])
    requests.clear()

    assert_type(record(broker.bootstrap_servers, ["orders"], "file", masking=Masking(["a.b"], keys=True), most=5), int)
    assert_type(replay(broker, Path("file")), int)


def cluster_of_a_plain_program(config: Config) -> None:
    with odradek.Cluster(brokers=3, data_dir="data", config=config, schema_registry=True) as cluster:
        assert_type((cluster.broker_ids, cluster.controller), tuple[list[int], int])
        assert_type(sorted(cluster.servers), list[int])
        assert_type(cluster.leader("orders", partition=0), int)
        cluster.kill(2)
        cluster.restart(2)
        cluster.move_leader("orders", 0, to=1)
        assert_type(cluster.pause(1), Fault)
        with cluster.isolate(1) as isolation:
            assert_type(isolation, Isolation)
            assert_type(isolation.count, int)
        isolation.heal()


async def programs_of_coroutines() -> None:
    async with odradek.Cluster(brokers=3, security="scram") as cluster:
        assert_type(cluster, odradek.Cluster)
        await cluster.kill(2)
        await cluster.restart(2)
        await cluster.move_leader("orders", to=1)
        await cluster.clock.advance(days=7)
        topic = await cluster.topic("orders").create()
        assert_type(topic, TopicView)
        assert_type(await topic.send(b"a"), int)
        assert_type(await topic.wait_for(records=1), list[SeenRecord])
        await cluster.group("billing").wait_for(lag=0)
        await cluster.save("folder")
        await cluster.restore("folder")
        await cluster.reset()
    broker = await odradek.Broker().start()
    assert_type(broker, odradek.Broker)
    await broker.stop()


def test_with_all_fixtures(
    odradek_session: odradek.Broker,
    odradek_broker: odradek.Broker,
    odradek_cluster: odradek.Cluster,
    odradek_faults: Faults,
    odradek_topic: TopicView,
    odradek_new_broker: NewBroker,
    odradek_schema_registry: SchemaRegistry,
) -> None:
    further = odradek_new_broker(config={"num.partitions": 3}, security="tls", schema_registry=True)
    assert_type(further, odradek.Broker)
    assert_type(odradek_schema_registry.url, str)
    odradek_schema_registry.clear()
    odradek_schema_registry.save("schemas.json")
    odradek_schema_registry.restore(Path("schemas.json"))
    odradek_schema_registry.close()


def container_of_testcontainers() -> None:
    with KafkaContainer("any-image", port=9093).with_kraft().with_env("KAFKA_NUM_PARTITIONS", 3) as kafka:
        assert_type(kafka, KafkaContainer)
        assert_type(kafka.broker, odradek.Broker)
        assert_type((kafka.get_bootstrap_server(), kafka.get_container_host_ip()), tuple[str, str])
        assert_type(kafka.get_exposed_port(9093), int)
    assert_type(KafkaContainer().with_envs(KAFKA_NUM_PARTITIONS="3").with_bind_ports(9093, 9092), KafkaContainer)
    assert_type(KafkaContainer().with_cluster_id("x").start(timeout=5), KafkaContainer)
    assert_type(RedpandaContainer().start().get_schema_registry_address(), str)
    kafka.stop(force=True)


async def in_simulated_time(simulation: Simulation, service: Coroutine[None, None, None]) -> int:
    node: Node = simulation.node("broker", {"num.partitions": "3"})
    await node.start()
    assert_type((node.name, node.is_running, node.skew_s), tuple[str, bool, float])
    assert_type(node.bootstrap_servers, str)
    process: Process = simulation.process("service", service)
    process.kill()
    node.pause()
    node.resume()
    node.drift(0.001)
    simulation.disk.fill("broker", 0)
    simulation.disk.fail("broker", 0.1)
    simulation.disk.mend("broker")
    node.crash(power=True)
    await node.stop()
    network: SimulatedNetwork = simulation.network
    network.cut("broker", "service")
    network.isolate("broker", [""])
    network.slow_down("broker", "service", (0.1, 0.2))
    network.loosen("broker", "service", 0.1)
    network.reset("broker", "service")
    network.mend("broker")
    return 1


def simulated_time(service: Coroutine[None, None, None]) -> None:
    with Simulation(seed=7, latency_s=(0.001, 0.002), started=0.0, points=("cold cache",)) as simulation:
        assert_type(simulation.run(in_simulated_time(simulation, service)), int)


def scans(directory: Path) -> None:
    assert_type(odradek.scan(directory / "orders"), Scan)
    assert_type(odradek.relation("orders", bootstrap_servers="localhost:9092", warehouse=directory), Relation)
