"""Changes of partitions in a delta: each field alone, and those that belong together."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage
from odradek.protocol.internal.cluster_metadata import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from odradek.protocol.schema import Message

IDS = {name: name.encode() * 16 for name in "ab"}


def replayed(image: MetadataImage, *records: Message) -> tuple[MetadataDelta, MetadataImage]:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta, delta.apply(image.offset + 1, 1, 0)


def partition(image: MetadataImage, index: int = 0, name: str = "a") -> PartitionImage:
    found = image.partition(name, index)
    assert found is not None
    return found


def created(*partitions: dict[str, Any], name: str = "a") -> list[Message]:
    made: list[Message] = [TopicRecord(name, IDS[name])]
    for index, fields in enumerate(partitions):
        values = {"replicas": [0, 2], "isr": [0], "leader": 0, "leader_epoch": 3, "partition_epoch": 7}
        values["directories"] = [bytes(16)] * 2
        made.append(PartitionRecord(partition_id=index, topic_id=IDS[name], **{**values, **fields}))
    return made


ELR = [
    ({"eligible_leader_replicas": [2], "last_known_elr": []}, True),
    ({"eligible_leader_replicas": [], "last_known_elr": [2]}, True),
    ({"eligible_leader_replicas": [2], "last_known_elr": [0]}, True),
    ({"eligible_leader_replicas": [], "last_known_elr": []}, False),
]


@pytest.mark.parametrize("topic_name", ["", "a"])
@pytest.mark.parametrize("is_new", [True, False])
def test_cleared_elr_changes_the_partitions_that_have_one(topic_name: str, is_new: bool) -> None:
    records = [*created(*(fields for fields, _ in ELR)), *created(ELR[0][0], name="b")]
    image = EMPTY_IMAGE if is_new else replayed(EMPTY_IMAGE, *records)[1]
    delta, after = replayed(image, *(records if is_new else []), ClearElrRecord(topic_name=topic_name))
    for index, (_, is_changed) in enumerate(ELR):
        found = partition(after, index)
        assert (found.elr, found.last_known_elr, found.partition_epoch) == ((), (), 8 if is_changed else 7)
    other = partition(after, 0, "b")
    assert (other.elr, other.partition_epoch) == (((), 8) if topic_name == "" else ((2,), 7))
    if not is_new:
        changed = {index for index, (_, is_changed) in enumerate(ELR) if is_changed}
        assert set(delta.topics.changed[IDS["a"]].changed) == changed


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"isr": [2]}, {"isr": (2,)}),
        ({"leader": 2}, {"leader": 2, "leader_epoch": 4}),
        ({"leader": -1}, {"leader": -1, "leader_epoch": 4}),
        ({"leader": 0}, {"leader_epoch": 4}),
        ({"leader": -2}, {}),
        ({"replicas": [2, 5]}, {"replicas": (2, 5)}),
        ({"adding_replicas": [5]}, {"adding_replicas": (5,)}),
        ({"removing_replicas": [0]}, {"removing_replicas": (0,)}),
        ({"leader_recovery_state": 1}, {"leader_recovery_state": 1}),
        ({"leader_recovery_state": -1}, {}),
        ({"eligible_leader_replicas": [2]}, {"elr": (2,)}),
        ({"last_known_elr": [2]}, {"last_known_elr": (2,)}),
    ],
)
def test_change_of_a_partition_changes_what_it_names(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    _, image = replayed(EMPTY_IMAGE, *created({}))
    before = partition(image)
    if "replicas" in fields:
        fields = {**fields, "directories": [bytes(16)] * 2}
    _, after = replayed(image, PartitionChangeRecord(0, IDS["a"], **fields))
    assert partition(after) == before._replace(partition_epoch=8, **expected)


def test_topic_that_is_removed_and_created_again_is_another_one() -> None:
    _, image = replayed(EMPTY_IMAGE, *created({}, {}))
    again = [TopicRecord("a", IDS["b"]), PartitionRecord(0, IDS["b"], [2], [2], [], [], 2, 0, 0, 0)]
    delta, after = replayed(image, RemoveTopicRecord(IDS["a"]), *again)
    assert set(delta.topics.deleted) == {IDS["a"]} and set(delta.topics.created) == {IDS["b"]}
    topic = after.topic("a")
    assert topic is not None and topic.id == IDS["b"] and set(topic.partitions) == {0}
    assert after.topic_by_id(IDS["a"]) is None and image.topic_by_id(IDS["a"]) is not None


def test_topic_that_is_created_and_removed_in_one_delta_was_never_there() -> None:
    delta, after = replayed(EMPTY_IMAGE, *created({}), RemoveTopicRecord(IDS["a"]))
    assert after.topics == EMPTY_IMAGE.topics
    assert not delta.topics.changed and IDS["a"] not in delta.topics.created
