"""The records that turn one image into another, independently built one."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage
from odradek.metadata.replacing import replace, replacing_records
from odradek.metadata.snapshot import image_records
from odradek.protocol.internal.cluster_metadata import ConfigRecord, TopicRecord, ZkMigrationStateRecord
from odradek.protocol.schema import Message

from tests.harness.examples import examples
from tests.metadata.image_records_strategy import histories

EXAMPLES = settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))


def replayed(image: MetadataImage, made: list[Message]) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in made:
        delta.replay(record)
    return delta.apply(0, 1, 1)


def continues(later: TopicImage, topic: TopicImage) -> bool:
    """Returns whether the images may be of one topic: its name is its id's for ever, and it loses no partition."""
    return later.name == topic.name and set(later.partitions) >= set(topic.partitions)


@EXAMPLES
@given(histories(20), histories(20))
def test_replacing_records_lead_from_any_image_to_any_other(one: list[Message], other: list[Message]) -> None:
    before, after = replayed(EMPTY_IMAGE, one), replayed(EMPTY_IMAGE, other)
    assume(all(continues(after.topics.by_id.get(topic.id, topic), topic) for topic in before.topics.by_id.values()))
    assert replayed(before, list(replacing_records(before, after))) == after
    delta = MetadataDelta(before)
    for _ in replace(delta, after):
        pass
    assert delta.apply(0, 1, 1) == after


@EXAMPLES
@given(histories(20), st.data())
def test_replacing_records_omit_unchanged_entries(history: list[Message], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(history)))
    before, after = replayed(EMPTY_IMAGE, history[:count]), replayed(EMPTY_IMAGE, history)
    delta = MetadataDelta(before)
    for record in replacing_records(before, after):
        delta.replay(record)
    assert set(delta.topics.created) == {id for id in after.topics.by_id if id not in before.topics.by_id}
    for topic_id, changed in delta.topics.changed.items():
        known = before.topics.by_id.get(topic_id)
        assert known is None or all(known.partitions.get(i) != p for i, p in changed.changed.items())


@pytest.mark.parametrize("value", ["1", "2"])
def test_topic_created_again_under_its_name_has_its_configs(value: str) -> None:
    """The record that deletes the first one removes its configs, even those that the second one has too."""

    def topic_with(topic_id: bytes, value: str) -> MetadataImage:
        return replayed(EMPTY_IMAGE, [TopicRecord("t", topic_id), ConfigRecord(2, "t", "retention.ms", value)])

    before, after = topic_with(bytes([7]) * 16, "1"), topic_with(bytes([8]) * 16, value)
    assert replayed(before, list(replacing_records(before, after))) == after


def test_state_of_a_migration_from_zookeeper_is_kept() -> None:
    """A cluster that came from ZooKeeper has it in its log for ever."""
    assert EMPTY_IMAGE.features.zk_migration_state == 0
    migrated = replayed(EMPTY_IMAGE, [ZkMigrationStateRecord(zk_migration_state=4)])
    assert migrated.features.zk_migration_state == 4
    assert replayed(EMPTY_IMAGE, list(image_records(migrated))).features.zk_migration_state == 4
    assert [type(one) for one in replacing_records(migrated, EMPTY_IMAGE)] == [ZkMigrationStateRecord]
    assert replayed(migrated, list(replacing_records(migrated, EMPTY_IMAGE))).features.zk_migration_state == 0
    assert list(replacing_records(migrated, migrated)) == []
