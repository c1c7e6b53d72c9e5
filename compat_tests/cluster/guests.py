"""Loads and settings that must survive each step of a migration, with counts of their own.

A share group, a transaction that is open during each step, a producer under a quota, access rules, and replicas in several
log directories. Kafka Streams runs with the classic or the streams protocol (KIP-1071).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from odradek.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryDataRequest, OpData
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.describe_acls import DescribeAclsRequest
from odradek.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.quota_entities import EntityData
from odradek.server.access.provisioning import NODE_NAME

from compat_tests import access
from compat_tests.exactly_once.copier import retried
from compat_tests.streams.word_count import WordCount, Words, exactly, lines_of
from tests.server.harness.cluster_process import Cluster, ClusterNode

from .orders import TOPIC
from .readers import POLL_S, Reader

#: Settings of the nodes that these guests need. Apache Kafka's controllers vote before they have loaded any access rule, so
#: nodes must be super users, and have certificates that tell them from clients.
OVERRIDES = {
    "super_users": f"User:{NODE_NAME}",
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow_everyone_if_no_acl_found": "true",
    "share_coordinator_state_topic_num_partitions": "3",
    "share_coordinator_state_topic_min_isr": "2",
}
LOG_DIRS = ("data", "data-2")
_GROUP_RESOURCE, _TOPIC_RESOURCE, _LITERAL, _SET = 32, 2, 3, 0
_ANY, _WRITE, _ALLOW, _TOPIC_AUTHORIZATION_FAILED = 1, 4, 3, 29
_COMMIT_S = 15.0
_DEADLINE_S = 180.0


class Guest:
    """A load or a setting. `after_step` and `end` raise AssertionError when it did not survive."""

    def begin(self) -> None: ...

    def before_step(self) -> None: ...

    def after_step(self) -> None: ...

    def end(self) -> str:
        """Checks the counts, and returns them as a sentence."""
        raise NotImplementedError

    def close(self) -> None: ...


class ShareReader(Reader):
    """A member of a share group. It accepts each record; `accepted` counts the acceptances that a broker has confirmed."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__("share group", bootstrap)
        self.accepted: Counter[str] = Counter()

    def configure(self, cluster: Cluster) -> None:
        configs = [AlterableConfig(name="share.auto.offset.reset", config_operation=_SET, value="earliest")]
        resource = AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=self.group, configs=configs)
        response = cluster.ask_any(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert not response.responses[0].error_code, response

    def read(self) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "group.id": self.group, **access.librdkafka()}
        consumer = ShareConsumer(
            {**settings, "share.acknowledgement.mode": "explicit", "reconnect.backoff.max.ms": 300, "log_level": 0}
        )
        consumer.subscribe([TOPIC])
        while not self._is_over.is_set():
            try:
                messages = [one for one in consumer.poll(POLL_S) if one.error() is None]
                self._accept(consumer, messages)
            except KafkaException as failure:
                if failure.args[0].fatal():
                    raise
        consumer.close()

    def _accept(self, consumer: ShareConsumer, messages: list[Message]) -> None:
        if not messages:
            return
        for message in messages:
            self.saw(message.partition(), message.offset(), message.value())
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        confirmed = {place.partition for place, error in consumer.commit_sync(_COMMIT_S).items() if error is None}
        self.accepted.update(one.value().decode() for one in messages if one.partition() in confirmed)

    def counted(self, acknowledged: set[str], records: Counter[str]) -> str:
        """Checks the deliveries. `records` counts the records of each order: librdkafka may have sent some again."""
        twice = [order for order, count in self.accepted.items() if count > records[order]]
        assert not twice, f"accepted, and delivered again: {twice[:10]}"
        assert acknowledged <= self.seen.keys()
        again = (self.seen - records).total()
        return (
            f"share group: {len(self.seen)} orders delivered, {len(self.accepted)} acceptances confirmed, none of them"
            f" delivered again; {again} deliveries of others repeated"
        )


class Counting(Guest):
    """A Kafka Streams application that counts words exactly once, with the classic or the streams protocol."""

    def __init__(self, cluster: Cluster, protocol: str, directory: Path) -> None:
        self._protocol = protocol
        self._topics = (f"lines-{protocol}", f"counts-{protocol}")
        for topic in self._topics:
            cluster.create_topic(topic, num_partitions=3, replication_factor=3)
        self._words = Words(cluster.bootstrap, self._topics, 3)
        self._application = WordCount(cluster.bootstrap, f"words-{protocol}", self._topics, directory)
        self._application.settings |= {
            "replication.factor": "3",
            "processing.guarantee": "exactly_once_v2",
            "group.protocol": protocol,
            **access.java(),
        }

    def begin(self) -> None:
        self._application.start()
        self._words.write(lines_of(50))

    def before_step(self) -> None:
        self._words.write(lines_of(50))

    def after_step(self) -> None:
        self._words.write(lines_of(50))

    def end(self) -> str:
        self._words.read_all()
        assert self._words.counts == exactly(self._words.written), "words are not counted exactly once"
        return f"Kafka Streams ({self._protocol}): {sum(self._words.written.values())} words, each counted once"

    def close(self) -> None:
        self._application.kill()
        self._words.close()


class OpenTransactions(Guest):
    """A producer whose transaction is open during each step. It commits or aborts in turn after the step."""

    topic, _RECORDS = "ledger", 5

    def __init__(self, cluster: Cluster) -> None:
        cluster.create_topic(self.topic, num_partitions=3, replication_factor=3)
        self._cluster = cluster
        self._number = 0
        self.committed: set[str] = set()
        self.aborted: set[str] = set()
        self._open: set[str] = set()
        settings = {"transactional.id": "ledger", "transaction.timeout.ms": 600_000, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings, **access.librdkafka()})

    def begin(self) -> None:
        retried(lambda: self._producer.init_transactions(60))

    def before_step(self) -> None:
        self._number += 1
        self._open = set()
        self._producer.begin_transaction()
        self._write("before")

    def after_step(self) -> None:
        self._write("after")
        try:
            if self._number % 2:
                retried(lambda: self._producer.commit_transaction(60))
                self.committed |= self._open
                return
        except KafkaException as failure:
            raise AssertionError(f"the open transaction cannot commit: {failure}") from failure
        retried(lambda: self._producer.abort_transaction(60))
        self.aborted |= self._open

    def _write(self, when: str) -> None:
        failed: list[str] = []

        def reported(error: KafkaError | None, _: object) -> None:
            if error is not None:
                failed.append(str(error))

        for number in range(self._RECORDS):
            entry = f"{self._number}-{when}-{number}"
            self._producer.produce(self.topic, entry, partition=number % 3, on_delivery=reported)
            self._open.add(entry)
        assert self._producer.flush(60) == 0 and not failed, failed

    def end(self) -> str:
        found = committed_values(self._cluster.bootstrap, self.topic, 3)
        assert found.keys() == self.committed, "other records are committed than those of committed transactions"
        assert set(found.values()) <= {1}, "records are there twice"
        return (
            f"open transactions: {len(self.committed)} records of committed ones, each once; none of the"
            f" {len(self.aborted)} of aborted ones"
        )


def committed_values(bootstrap: str, topic: str, partitions: int) -> Counter[str]:
    """Counts the committed records of a topic by value."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "counts", "isolation.level": "read_committed"}
    reading = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True, **access.librdkafka()})
    places = [TopicPartition(topic, index, 0) for index in range(partitions)]
    reading.assign(places)
    found: Counter[str] = Counter()
    ended: set[int] = set()
    deadline = time.monotonic() + _DEADLINE_S
    while len(ended) < len(places):
        assert time.monotonic() < deadline, f"{topic} cannot be read to its end"
        for message in reading.consume(1000, 1.0):
            if message.error() is None:
                found[message.value().decode()] += 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    reading.close()
    return found


class Limited(Guest):
    """A producer that sends as much as its quota allows. Each leader of its partition throttles it."""

    _TOPIC, _CLIENT, _RATE, _RECORD_BYTES = "limited", "limited", 50_000.0, 5_000
    #: A new leader starts with empty samples, so it allows the bytes of a whole window (`quota.window.num` samples of 1 s).
    _WINDOW_S = 11

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        cluster.create_topic(self._TOPIC, num_partitions=1, replication_factor=3)
        entry = EntryDataRequest([EntityData("client-id", self._CLIENT)], [OpData("producer_byte_rate", self._RATE)])
        response = cluster.ask_any(AlterClientQuotasRequest(entries=[entry]), 1)
        assert not response.entries[0].error_code, response
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._bytes = 0
        self._throttled: list[tuple[float, int]] = []
        self._began, self._steps = 0.0, 0
        self._leaders: set[int] = set()

    def begin(self) -> None:
        self._began = time.monotonic()
        self._thread.start()
        self._await_throttling()

    def after_step(self) -> None:
        self._steps += 1
        self._await_throttling()

    def _await_throttling(self) -> None:
        since = time.monotonic()

        def is_throttled() -> bool:
            leader: int = self._cluster.partitions(self._TOPIC)[0].leader_id
            if any(when > since and broker == leader for when, broker in self._throttled):
                self._leaders.add(leader)
                return True
            return False

        self._cluster.until(is_throttled, "the leader throttles the producer that has a quota")

    def _send(self) -> None:
        settings = {"client.id": self._CLIENT, "linger.ms": 5, "message.timeout.ms": 300_000, "log_level": 0}
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                **settings,
                "throttle_cb": lambda event: self._throttled.append((time.monotonic(), event.broker_id)),
                "queue.buffering.max.messages": 20,
                **access.librdkafka(),
            }
        )

        def reported(error: KafkaError | None, _: object) -> None:
            self._bytes += 0 if error is not None else self._RECORD_BYTES

        while not self._is_over.is_set():
            try:
                producer.produce(self._TOPIC, bytes(self._RECORD_BYTES), on_delivery=reported)
                producer.poll(0)
            except BufferError:
                producer.poll(0.1)
        producer.purge()
        producer.flush(10)

    def end(self) -> str:
        took = time.monotonic() - self._began
        self.close()
        most = self._RATE * (took + self._WINDOW_S * (self._steps + 1))
        assert 0 < self._bytes <= most, f"{self._bytes} bytes in {took:.0f} s, where the quota allows {most:.0f}"
        rate = self._bytes / took
        return f"quota: {rate:.0f} bytes/s of {self._RATE:.0f}; throttled by the leaders {sorted(self._leaders)}"

    def close(self) -> None:
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(30)


class Rules(Guest):
    """Quotas and access rules: each broker describes the same ones, and rejects reads of a write-only topic."""

    _TOPIC = "write-only"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        cluster.create_topic(self._TOPIC, num_partitions=1, replication_factor=3)
        rule = AclCreation(_TOPIC_RESOURCE, self._TOPIC, _LITERAL, "User:*", "*", _WRITE, _ALLOW)
        response = cluster.ask_any(CreateAclsRequest(creations=[rule]), 3)
        assert not response.results[0].error_code, response
        self._rejections = 0
        self._expected = ""

    def begin(self) -> None:
        self._expected = self._described(self._cluster.running()[0])
        assert self._TOPIC in self._expected and "producer_byte_rate" in self._expected
        self.after_step()

    def after_step(self) -> None:
        for node in self._cluster.running():
            self._cluster.until(lambda node=node: self._described(node) == self._expected, "the rules are the same")
            partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
            response = node.ask(
                FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic=self._TOPIC, partitions=[partition])]), 12
            )
            error = response.responses[0].partitions[0].error_code
            assert error == _TOPIC_AUTHORIZATION_FAILED, f"node {node.node_id} answers {error} to a read that is denied"
            self._rejections += 1
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap, "log_level": 0, **access.librdkafka()})
        producer.produce(self._TOPIC, b"permitted")
        assert producer.flush(60) == 0

    def _described(self, node: ClusterNode) -> str:
        quotas = node.ask(DescribeClientQuotasRequest([ComponentData("client-id", 2, None)]), 1)
        rules = node.ask(DescribeAclsRequest(_ANY, None, _ANY, None, None, _ANY, _ANY), 3)
        return f"{quotas.entries} {rules.resources}"

    def end(self) -> str:
        return f"access rules: the same at each broker after each step; {self._rejections} reads rejected"


class Directories(Guest):
    """Replicas in two log directories: each stays in its directory during a step; then a node moves one of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._places: dict[tuple[int, str, int], str] = {}
        self._moves = 0

    def begin(self) -> None:
        self._places = self._described()
        assert len(set(self._places.values())) == len(LOG_DIRS) * len(self._cluster.running())

    def before_step(self) -> None:
        """Moves a replica of the orders on each node in turn, to the other directory."""
        nodes = sorted(self._cluster.running(), key=lambda node: node.node_id)
        node, index = nodes[self._moves % len(nodes)], self._moves % 3
        place = (node.node_id, TOPIC, index)
        if place in self._places:
            other = next(str(one) for one in node.log_dirs if str(one) != self._places[place])
            request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(other, [AlterReplicaLogDirTopic(TOPIC, [index])])])
            response = node.ask(request, 2)
            assert not response.results[0].partitions[0].error_code, response
            self._cluster.until(lambda: self._described().get(place) == other, "the replica is moved")
            self._moves += 1
        self._places = self._described()

    def after_step(self) -> None:
        now = self._described()
        for place, directory in self._places.items():
            assert now.get(place, directory) == directory, f"{place} was in {directory}, and is in {now[place]}"

    def _described(self) -> dict[tuple[int, str, int], str]:
        return {
            (node.node_id, topic.name, part.partition_index): result.log_dir
            for node in self._cluster.running()
            for result in node.ask(DescribeLogDirsRequest(None), 4).results
            for topic in result.topics
            for part in topic.partitions
            if not part.is_future_key
        }

    def end(self) -> str:
        return (
            f"log directories: {len(self._places)} replicas each stayed in its own; {self._moves} moved between steps"
        )


def settings_of(cluster: Cluster) -> list[Callable[[], Guest]]:
    """Returns the guests that need `OVERRIDES` and `LOG_DIRS`."""
    return [
        lambda: OpenTransactions(cluster),
        lambda: Limited(cluster),
        lambda: Rules(cluster),
        lambda: Directories(cluster),
    ]
