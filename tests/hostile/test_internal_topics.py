"""Hostile records of internal topics: coordinators load, and serve the groups and transactions that they are not about.

Only Kafka's admin client may write to these topics, and a client can take its id.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic
from odradek.coordinator.groups.all_kinds import ALL_KINDS
from odradek.coordinator.groups.kinds import Kinds
from odradek.coordinator.groups.shard_loader import ShardLoader
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.persister_loader import PersisterLoader
from odradek.coordinator.share_state import PersisterConfig
from odradek.coordinator.skipped_records import MOST_LINES
from odradek.coordinator.transaction_loader import TransactionLoader
from odradek.coordinator.transaction_requests import TransactionsConfig
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually
from compat_tests.wire import WireClient
from tests.harness.examples import examples
from tests.hostile.attack_target import BUG_LINES
from tests.hostile.internal_records import KeyAndValue, hostile_records, records_of

OFFSETS, TRANSACTIONS, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"
TOPICS = (OFFSETS, TRANSACTIONS, SHARES)
CONFIG = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
TOPIC, ADMIN_CLIENT = "t", "__admin_client"
SEEDS, RECORDS, ROUNDS, DEADLINE_S = examples(150), 200, 30, 60
NOW, SEED = 1_700_000_000_000, 7
TIMERS, MOST_WAIT_MS = 50, 86_400_000


def use(bootstrap: str, name: str) -> None:
    """Reads a record as a classic group, as a consumer group and as a share group, and writes in a transaction."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(DEADLINE_S)

    def write() -> None:
        producer.begin_transaction()
        producer.produce(TOPIC, b"v")
        producer.commit_transaction(DEADLINE_S)

    write()
    for protocol in ("classic", "consumer"):
        settings = {"group.id": f"{name}-{protocol}", "group.protocol": protocol, "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": bootstrap, "enable.auto.commit": False, **settings})
        consumer.subscribe([TOPIC])
        write()
        await_that(lambda one=consumer: (read := one.poll(0.5)) is not None and not read.error(), f"{protocol} reads")
        consumer.commit(asynchronous=False)
        consumer.close()
    shares = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": f"{name}-share"})
    shares.subscribe([TOPIC])
    await_that(lambda: write() or shares.poll(0.5), "the share group reads")
    shares.close()


def await_that(holds: Callable[[], Any], what: str) -> None:
    eventually(holds, what=what, deadline_s=DEADLINE_S)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory, sockets: None) -> Iterator[dict[str, list[KeyAndValue]]]:
    """The records that coordinators write for some groups, by topics."""
    folder = tmp_path_factory.mktemp("known")
    with odradek.Broker(data_dir=folder, config=CONFIG) as broker:
        broker.topic(TOPIC).send(b"1")
        use(broker.bootstrap_servers, "bait")
        yield {topic: records_of(folder / f"{topic}-0") for topic in TOPICS}


def loader_of(topic: str) -> Any:
    if topic == OFFSETS:
        return ShardLoader(GroupsConfig(), Kinds(ALL_KINDS), topic)
    return (
        TransactionLoader(TransactionsConfig(), topic)
        if topic == TRANSACTIONS
        else PersisterLoader(PersisterConfig(), topic)
    )


@pytest.mark.parametrize("topic", TOPICS)
def test_coordinator_loads_beside_hostile_records(known: dict[str, list[KeyAndValue]], topic: str) -> None:
    """Timers run, too: they look at all that was loaded."""
    for seed in range(SEEDS):
        rng = random.Random(seed)
        records = known[topic] + hostile_records(rng, known[topic], RECORDS)
        loader = loader_of(topic)
        loader.feed(encode_batch([Record(at, NOW, key, value) for at, (key, value) in enumerate(records)]))
        now = NOW
        shard = loader.loaded(len(records), now)
        for _ in range(TIMERS):
            shard.take()
            deadline = shard.deadline()
            if deadline is None:
                break
            now = max(now, min(deadline, now + MOST_WAIT_MS))
            shard.expire(now)


@pytest.mark.parametrize("bug", [AssertionError, AttributeError, KeyError, TypeError])
@pytest.mark.parametrize("topic", [OFFSETS, SHARES])
def test_replay_that_fails_by_a_bug_ends_the_loading(
    known: dict[str, list[KeyAndValue]], monkeypatch: pytest.MonkeyPatch, topic: str, bug: type[Exception]
) -> None:
    def replay(*record: object) -> None:
        raise bug

    loader = loader_of(topic)
    monkeypatch.setattr(loader.shard, "replay", replay)
    loader.feed(encode_batch([Record(at, NOW, key, value) for at, (key, value) in enumerate(known[topic])]))
    with pytest.raises(bug):
        loader.loaded(len(known[topic]), NOW)


def write_as_admin_client(bootstrap: str, topic: str, records: list[KeyAndValue]) -> int:
    """Returns the error."""
    made = [Record(at, time.time_ns() // 1_000_000, key, value) for at, (key, value) in enumerate(records)]
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=encode_batch(made))])
    with WireClient(bootstrap, client_id=ADMIN_CLIENT) as client:
        response = client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 9)
    return int(response.responses[0].partition_responses[0].error_code)


def test_broker_serves_other_groups_and_transactions_after_a_restart(tmp_path: Path, processes: None) -> None:
    rng = random.Random(SEED)
    with OdradekProcess(tmp_path, CONFIG) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        next(iter(admin.create_topics([NewTopic(TOPIC, 1)]).values())).result(DEADLINE_S)
        use(broker.bootstrap, "bait")
        baits = {topic: records_of(broker.data_dir / f"{topic}-0") for topic in TOPICS}
        use(broker.bootstrap, "user")
        for topic in TOPICS:
            for _ in range(ROUNDS):
                error = write_as_admin_client(broker.bootstrap, topic, hostile_records(rng, baits[topic], 20))
                assert error in (ErrorCode.NONE, ErrorCode.INVALID_RECORD)
        broker.stop()
        broker.start()
        use(broker.bootstrap, "user")
        use(broker.bootstrap, "later")
        lines = broker.log_file.read_text(errors="replace").splitlines()
        assert [one for one in lines if any(words in one for words in BUG_LINES)] == []
        assert sum("skipped" in one for one in lines) <= len(TOPICS) * (MOST_LINES + 1)
