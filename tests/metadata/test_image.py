"""The image: one history always leads to one image, however it is replayed, and a snapshot rebuilds the image."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import (
    EMPTY_IMAGE,
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    TOPIC_RESOURCE,
    UNASSIGNED_DIRECTORY,
    BrokerImage,
    MetadataImage,
)
from odradek.metadata.metadata_version import DEFAULT
from odradek.metadata.records import RECORD_CLASSES, decode_record, encode_record
from odradek.metadata.snapshot import image_records
from odradek.metadata.transactions import MetadataTransactions
from odradek.protocol.codec import MalformedMessage
from odradek.protocol.internal import cluster_metadata as records
from odradek.protocol.schema import Message

from tests.harness.examples import examples
from tests.metadata.image_records_strategy import histories

EXAMPLES = settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
ID = b"0123456789abcdef"


def replayed(image: MetadataImage, made: list[Message]) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in made:
        delta.replay(record)
    return delta.apply(image.offset + len(made), 1, 1)


@EXAMPLES
@given(histories(25), st.data())
def test_history_leads_to_one_image_however_split_into_deltas(history: list[Message], data: st.DataObject) -> None:
    at_once = replayed(EMPTY_IMAGE, history)
    image, rest, passed = EMPTY_IMAGE, history, []
    while rest:
        count = data.draw(st.integers(1, len(rest)))
        passed.append((image, list(image_records(image))))
        image, rest = replayed(image, rest[:count]), rest[count:]
    assert image.features == at_once.features and image.cluster == at_once.cluster
    assert image.topics == at_once.topics and image.configs == at_once.configs
    assert (image.client_quotas, image.acls, image.scram) == (at_once.client_quotas, at_once.acls, at_once.scram)
    assert (image.delegation_tokens, image.next_producer_id) == (at_once.delegation_tokens, at_once.next_producer_id)
    assert all(list(image_records(old)) == then for old, then in passed), "an image is immutable"


@EXAMPLES
@given(histories(25), st.data())
def test_delta_may_be_applied_while_it_grows(history: list[Message], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(history)))
    before = replayed(EMPTY_IMAGE, history[:count])
    delta = MetadataDelta(before)
    for record in history[count:]:
        delta.replay(record)
        if data.draw(st.booleans()):
            assert delta.topics.apply() is delta.topics.apply(), "changes are applied once"
    assert delta.apply(len(history), 1, 1) == replayed(before, history[count:])._replace(offset=len(history))


def test_topic_created_and_deleted_between_applications_leaves_no_trace() -> None:
    delta = MetadataDelta(replayed(EMPTY_IMAGE, [records.TopicRecord(name="t", topic_id=ID)]))
    other, third = ID[::-1], ID[1:] + ID[:1]
    for made in (
        [records.RemoveTopicRecord(topic_id=ID), records.TopicRecord(name="t", topic_id=other)],
        [records.PartitionRecord(topic_id=other, partition_id=0, replicas=[1], isr=[1], leader=1)],
        [records.RemoveTopicRecord(topic_id=other), records.TopicRecord(name="t", topic_id=third)],
    ):
        for record in made:
            delta.replay(record)
        topics = delta.topics.apply()
        assert len(topics.by_name) == len(topics.by_id) == 1 and topics.by_name["t"] in topics.by_id.values()
    assert topics.by_name["t"].id == third and not topics.by_name["t"].partitions
    delta.replay(records.RemoveTopicRecord(topic_id=third))
    assert not delta.topics.apply().by_id and not delta.topics.apply().by_name
    assert set(delta.topics.deleted) == {ID} and not delta.topics.changed


@EXAMPLES
@given(histories(25))
def test_replayed_snapshot_rebuilds_image(history: list[Message]) -> None:
    image = replayed(EMPTY_IMAGE, history)
    again = MetadataDelta()
    # At the highest feature level no record omits a field.
    for record in image_records(image):
        again.replay(decode_record(encode_record(record, max(DEFAULT, image.features.metadata_version))))
    if not history:
        return
    assert again.apply(image.offset, image.epoch, image.last_append_timestamp_ms).topics == image.topics
    made = again.apply(image.offset, image.epoch, image.last_append_timestamp_ms)
    level = {"metadata.version": image.features.metadata_version}
    assert dict(made.features.finalized) == level | dict(image.features.finalized)
    assert (made.cluster, made.configs, made.client_quotas) == (image.cluster, image.configs, image.client_quotas)
    assert (made.acls, made.scram, made.delegation_tokens) == (image.acls, image.scram, image.delegation_tokens)
    assert made.next_producer_id == image.next_producer_id


@EXAMPLES
@given(histories(20))
def test_same_image_produces_same_snapshot(history: list[Message]) -> None:
    image = replayed(EMPTY_IMAGE, history)
    again = replayed(EMPTY_IMAGE, list(image_records(image)))
    assert list(image_records(again)) == list(image_records(image))


@EXAMPLES
@given(histories(20))
def test_delta_lists_created_deleted_and_changed_topics(history: list[Message]) -> None:
    half = replayed(EMPTY_IMAGE, history[: len(history) // 2])
    delta = MetadataDelta(half)
    for record in history[len(history) // 2 :]:
        delta.replay(record)
    image = delta.apply(0, 0, 0)
    now, then = set(image.topics.by_id), set(half.topics.by_id)
    assert (set(delta.topics.created), set(delta.topics.deleted)) == (now - then, then - now)
    for topic_id, topic in image.topics.by_id.items():
        before = half.topics.by_id.get(topic_id)
        other = {i for i, p in topic.partitions.items() if before is None or before.partitions.get(i) != p}
        changed = delta.topics.changed.get(topic_id)
        assert other <= (set(changed.changed) if changed is not None else set())


def test_deleting_topic_deletes_its_configs() -> None:
    topic = records.TopicRecord(name="t", topic_id=ID)
    config = records.ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name="k", value="v")
    image = replayed(EMPTY_IMAGE, [topic, config])
    assert dict(image.config(TOPIC_RESOURCE, "t")) == {"k": "v"}
    gone = replayed(image, [records.RemoveTopicRecord(topic_id=ID)])
    assert (gone.topic("t"), gone.topic_by_id(ID), len(gone.configs)) == (None, None, 0)
    anew = replayed(image, [records.RemoveTopicRecord(topic_id=ID), records.TopicRecord(name="t", topic_id=ID[::-1])])
    assert anew.topic("t") == anew.topic_by_id(ID[::-1]) and not anew.config(TOPIC_RESOURCE, "t")


def test_change_raises_partition_epoch_and_new_leader_raises_leader_epoch() -> None:
    made = [
        records.TopicRecord(name="t", topic_id=ID),
        records.PartitionRecord(
            partition_id=0, topic_id=ID, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=3, partition_epoch=5
        ),
    ]
    image = replayed(EMPTY_IMAGE, made)
    shrunk = replayed(image, [records.PartitionChangeRecord(topic_id=ID, partition_id=0, isr=[1])])
    assert shrunk.partition("t", 0) == image.topics.by_name["t"].partitions[0]._replace(isr=(1,), partition_epoch=6)
    led = replayed(image, [records.PartitionChangeRecord(topic_id=ID, partition_id=0, leader=1)])
    assert led.topics.by_name["t"].partitions[0][2:5] == (1, 4, 6)


def test_record_that_contradicts_image_raises() -> None:
    image = replayed(EMPTY_IMAGE, [records.RegisterBrokerRecord(broker_id=1, broker_epoch=7)])
    for wrong in (
        records.RemoveTopicRecord(topic_id=ID),
        records.PartitionRecord(topic_id=ID, partition_id=0),
        records.FenceBrokerRecord(id=1, epoch=6),
        records.BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=7),
    ):
        with pytest.raises((KeyError, AssertionError)):
            MetadataDelta(image).replay(wrong)


def test_unassigned_directories_are_online_and_lost_ones_are_not() -> None:
    broker = BrokerImage(1, 1, ID, EMPTY_IMAGE.configs, EMPTY_IMAGE.configs, directories=(ID,))  # type: ignore[arg-type]
    online = [ID, UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY]
    assert all(map(broker.has_online_directory, online))
    assert not broker.has_online_directory(LOST_DIRECTORY) and not broker.has_online_directory(ID[::-1])


@EXAMPLES
@given(histories(10), st.booleans())
def test_transaction_records_take_effect_together_or_not_at_all(history: list[Message], commits: bool) -> None:
    end = records.EndTransactionRecord() if commits else records.AbortTransactionRecord()
    log = [records.NoOpRecord(), records.BeginTransactionRecord(name="n"), *history]
    transactions = MetadataTransactions()
    assert [effective for record in log for effective in transactions.take(record)] == [records.NoOpRecord()]
    assert transactions.is_open
    assert list(transactions.take(end)) == (history if commits else [])
    assert not transactions.is_open


def test_every_record_survives_framing_round_trip() -> None:
    assert len(RECORD_CLASSES) == 27
    for cls in RECORD_CLASSES.values():
        assert decode_record(encode_record(cls(), DEFAULT)) == cls()


@pytest.mark.parametrize(
    "value", [b"", b"\x01", b"\x01\x02", b"\x02\x02\x00", b"\x01\x7f\x00", b"\x01\x02\x09", b"\x01\x14\x00\x00\x00"]
)
def test_decoding_invalid_record_raises_malformed_message(value: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_record(value)


def test_equal_replica_sets_share_one_object() -> None:
    made: list[Message] = [records.TopicRecord("many", ID)]
    for index in range(3):
        made.append(
            records.PartitionRecord(
                partition_id=index,
                topic_id=ID,
                replicas=[1, 2, 3],
                isr=[1, 2, 3],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[bytes([broker]) * 16 for broker in (1, 2, 3)],
            )
        )
    image = replayed(EMPTY_IMAGE, made)
    image = replayed(image, [records.PartitionChangeRecord(0, ID, isr=[1, 2])])
    image = replayed(image, [records.PartitionChangeRecord(1, ID, isr=[1, 2], replicas=[1, 2, 3])])
    first, second, third = (image.topics.by_name["many"].partitions[index] for index in range(3))
    assert first.replicas is second.replicas is third.replicas is third.isr
    assert first.directories is second.directories is third.directories
    assert first.isr is second.isr and first.isr == (1, 2)
