"""Dead letter queues of share groups on the wire: records that a group gives up are in its configured topic (KIP-1191)."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator

import odradek
import pytest
from confluent_kafka import Producer
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

from compat_tests.recipes import eventually, make_topic
from compat_tests.wire import WireClient
from tests.server.harness.dead_letter_queue import EXCEEDED, REJECTED, dead_letter_records, upgrade
from tests.server.harness.share_groups import configure, lag, member, produce
from tests.server.harness.share_member import ACCEPT, REJECT, RELEASE, Member

pytestmark = pytest.mark.usefixtures("sockets")

SETTINGS = {
    "odradek.metrics.port": 0,
    "errors.deadletterqueue.auto.create.topics.enable": True,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.delivery.count.limit": 2,
    "log.message.timestamp.type": "LogAppendTime",
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker(config=SETTINGS) as running:
        assert upgrade(running.bootstrap_servers).error_code == 0
        yield running


@pytest.fixture(scope="module")
def bootstrap(broker: odradek.Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return request.node.name[5:80]


def with_queue(bootstrap: str, name: str, **settings: str) -> str:
    """Configures a queue for the group `name`. Returns the queue's topic."""
    queue = f"dlq.{name}"
    configure(bootstrap, name, errors_deadletterqueue_topic_name=queue, **settings)
    return queue


def is_through(bootstrap: str, name: str) -> None:
    eventually(lambda: lag(bootstrap, name) == 0, what="the group is done with all")


def taken(member: Member) -> list[tuple[int, int, int]]:
    """Returns the records that the member acquires next, once there are some."""
    return eventually(member.take, what="records")


def test_rejected_records_reach_a_queue_created_later(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    queue = with_queue(bootstrap, name)
    produce(bootstrap, name, 10)
    began_ms = time.time() * 1000
    with member(bootstrap, name, topic_id) as one:
        assert taken(one) == [(0, 9, 1)]
        assert one.acknowledge((0, 2, ACCEPT), (3, 3, REJECT), (4, 6, ACCEPT), (7, 9, REJECT)).error_code == 0
        is_through(bootstrap, name)
    found = dead_letter_records(bootstrap, queue)
    assert [dead_letter.offset for dead_letter in found] == [3, 7, 8, 9]
    for dead_letter in found:
        fixed = {"topic": name, "partition": "0", "group": name, "delivery.count": "1", "message": REJECTED}
        assert dead_letter.headers == {"offset": dead_letter.headers["offset"], **fixed}
        assert list(dead_letter.headers) == ["topic", "partition", "offset", "group", "delivery.count", "message"]
        assert (dead_letter.key, dead_letter.value) == (None, None)
        assert dead_letter.timestamp >= began_ms - 1000
    assert configured(bootstrap, queue) == {
        "errors.deadletterqueue.group.enable": "true",
        "message.timestamp.type": "CreateTime",
    }


def configured(bootstrap: str, topic: str) -> dict[str, str | None]:
    """Returns the configurations that the topic itself sets."""
    of_topic = 1
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(2, topic, None)])
    with WireClient(bootstrap) as client:
        (result,) = client.call(request, 4).results
    return {config.name: config.value for config in result.configs if config.config_source == of_topic}


def test_keys_and_values_come_along_where_the_group_says_so(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    queue = with_queue(bootstrap, name, errors_deadletterqueue_copy_record_enable="true")
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd", "linger.ms": 1000, "log_level": 0})
    sent: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v"), (None, b"x" * 900), (b"k", None), (None, None)]
    for key, value in sent:
        producer.produce(name, value, key, partition=0, headers=[("own", b"header")])
    assert producer.flush(30) == 0
    with member(bootstrap, name, topic_id) as one:
        assert taken(one) == [(0, 3, 1)]
        assert one.acknowledge((0, 3, REJECT)).error_code == 0
        is_through(bootstrap, name)
    found = dead_letter_records(bootstrap, queue)
    assert [(dead_letter.key, dead_letter.value) for dead_letter in found] == sent
    assert [dead_letter.offset for dead_letter in found] == [0, 1, 2, 3]


def exceeded(bootstrap: str, queue: str, offsets: set[int]) -> None:
    """Waits for dead-letter records of exactly these offsets, all with the same reason."""
    eventually(lambda: len(dead_letter_records(bootstrap, queue)) == len(offsets), what="the letters")
    found = dead_letter_records(bootstrap, queue)
    assert {dead_letter.offset for dead_letter in found} == offsets
    assert {dead_letter.headers["message"] for dead_letter in found} == {EXCEEDED}
    assert {dead_letter.headers["delivery.count"] for dead_letter in found} == {"2"}


def test_records_that_were_released_as_often_as_they_are_delivered_are_there(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    queue = with_queue(bootstrap, name)
    produce(bootstrap, name, 3, batch=1)
    with member(bootstrap, name, topic_id) as one:
        for _ in range(2):
            taken(one)
            assert one.acknowledge((0, 2, RELEASE)).error_code == 0
        is_through(bootstrap, name)
    exceeded(bootstrap, queue, {0, 1, 2})


def test_records_whose_locks_ended_too_often_are_there(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    queue = with_queue(bootstrap, name, share_record_lock_duration_ms="1000")
    produce(bootstrap, name, 2, batch=2)
    with member(bootstrap, name, topic_id) as one:
        assert [taken(one) for _ in range(2)] == [[(0, 1, 1)], [(0, 1, 2)]]
        exceeded(bootstrap, queue, {0, 1})
        is_through(bootstrap, name)


def test_leaving_members_records_are_dead_lettered_after_last_delivery(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    queue = with_queue(bootstrap, name)
    produce(bootstrap, name, 2, batch=2)
    with member(bootstrap, name, topic_id) as one:
        for count in (1, 2):
            assert taken(one) == [(0, 1, count)]
            assert one.fetch(epoch=-1).error_code == 0
            one.session_epoch = 0
        exceeded(bootstrap, queue, {0, 1})


def test_dead_letter_records_beyond_batch_limit_form_several_batches(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name, partitions=3)
    queue = with_queue(bootstrap, name, errors_deadletterqueue_copy_record_enable="true")
    marks = {"errors.deadletterqueue.group.enable": "true", "max.message.bytes": "4000"}
    make_topic(bootstrap, queue, partitions=2, configs=marks)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1000, "log_level": 0})
    for number in range(60):
        producer.produce(name, b"%d" % number * 300, partition=2)
    assert producer.flush(30) == 0
    with member(bootstrap, name, topic_id, partitions=3) as one:
        one.places = [(topic_id, 2)]
        assert sum(last - first + 1 for first, last, _ in taken(one)) == 60
        assert one.acknowledge((0, 29, REJECT), *((n, n, REJECT) for n in range(30, 60))).error_code == 0
        eventually(lambda: len(dead_letter_records(bootstrap, queue)) == 60, what="all letters are there")
    found = sorted(dead_letter_records(bootstrap, queue), key=lambda dead_letter: dead_letter.offset)
    assert [dead_letter.offset for dead_letter in found] == list(range(60))
    assert [dead_letter.value for dead_letter in found] == [b"%d" % number * 300 for number in range(60)]
    assert {dead_letter.headers["partition"] for dead_letter in found} == {"2"}


def test_record_too_large_for_queue_is_dead_lettered_without_value(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    queue = with_queue(bootstrap, name, errors_deadletterqueue_copy_record_enable="true")
    make_topic(bootstrap, queue, configs={"errors.deadletterqueue.group.enable": "true", "max.message.bytes": "1000"})
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1000, "compression.type": "gzip", "log_level": 0})
    for value in (b"small", b"large" * 1000, b"small"):
        producer.produce(name, value, partition=0)
        assert producer.flush(30) == 0
    with member(bootstrap, name, topic_id) as one:
        taken(one)
        assert one.acknowledge((0, 2, REJECT)).error_code == 0
        is_through(bootstrap, name)
    assert [dead_letter.value for dead_letter in dead_letter_records(bootstrap, queue)] == [b"small", None, b"small"]


def scraped(broker: odradek.Broker, group: str) -> dict[str, float]:
    """Returns the counters of a group."""
    server = broker.server.observability
    assert server is not None
    host, port = server.address
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    start, end = "kafka_server_sharegroupmetrics_deadletterqueue", f'_total{{group="{group}"}}'
    found = (line.rpartition(" ") for line in lines if line.startswith(start) and end in line)
    return {name.removeprefix(start).removesuffix(end): float(value) for name, _, value in found}


def test_dead_letter_records_are_counted(broker: odradek.Broker, bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    with_queue(bootstrap, name)
    produce(bootstrap, name, 5)
    with member(bootstrap, name, topic_id) as one:
        assert taken(one) == [(0, 4, 1)]
        assert one.acknowledge((0, 4, REJECT)).error_code == 0
        is_through(bootstrap, name)
    assert scraped(broker, name) == {"recordcount": 5, "totalproducerequests": 1, "failedproducerequests": 0}


@pytest.mark.parametrize("fault", ["unmarked", "other.prefix"])
def test_a_queue_that_may_not_be_written_holds_nothing_up(fault: str, bootstrap: str) -> None:
    topic_id = make_topic(bootstrap, fault)
    queue = "dlq.unmarked.topic" if fault == "unmarked" else "other.topic"
    make_topic(bootstrap, queue, configs={"errors.deadletterqueue.group.enable": str(fault != "unmarked").lower()})
    configure(bootstrap, fault, errors_deadletterqueue_topic_name=queue)
    produce(bootstrap, fault, 5)
    with member(bootstrap, fault, topic_id) as one:
        assert taken(one) == [(0, 4, 1)]
        assert one.acknowledge((0, 4, REJECT)).error_code == 0
        is_through(bootstrap, fault)
    assert dead_letter_records(bootstrap, queue) == []


def test_a_queue_that_is_configured_late_gets_what_is_given_up_from_then_on(bootstrap: str, name: str) -> None:
    topic_id = make_topic(bootstrap, name)
    configure(bootstrap, name)
    produce(bootstrap, name, 3, batch=1)
    with member(bootstrap, name, topic_id) as one:
        taken(one)
        assert one.acknowledge((0, 0, REJECT)).error_code == 0
        queue = with_queue(bootstrap, name)
        assert one.acknowledge((1, 1, REJECT)).error_code == 0
        configure(bootstrap, name, errors_deadletterqueue_topic_name="")
        assert one.acknowledge((2, 2, REJECT)).error_code == 0
        is_through(bootstrap, name)
    assert [dead_letter.offset for dead_letter in dead_letter_records(bootstrap, queue)] == [1]


def test_below_the_level_of_the_feature_there_are_no_queues() -> None:
    with odradek.Broker(config=SETTINGS) as broker:
        bootstrap = broker.bootstrap_servers
        topic_id = make_topic(bootstrap, "old")
        queue = with_queue(bootstrap, "old")
        produce(bootstrap, "old", 5)
        with member(bootstrap, "old", topic_id) as one:
            assert taken(one) == [(0, 4, 1)]
            assert one.acknowledge((0, 4, REJECT)).error_code == 0
            assert lag(bootstrap, "old") == 0, "they are archived with the response"
        assert dead_letter_records(bootstrap, queue) == []
