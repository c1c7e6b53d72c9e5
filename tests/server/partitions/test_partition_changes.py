"""Partitions that follow deltas of the metadata around scripted parts: what is made, removed, reconfigured, and when."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE, TOPIC_RESOURCE
from odradek.protocol.internal.cluster_metadata import ConfigRecord, PartitionChangeRecord, RemoveTopicRecord
from odradek.server.partitions import pending_partitions

from tests.server.harness.following_node import FollowingNode
from tests.server.harness.images import topic_id_of, topic_records
from tests.server.harness.replicas import eventually

OWN, OTHER = 0, 2
OFFSETS = "__consumer_offsets"
BROKER_RESOURCE = 4


def reassigned(name: str, *replicas: int, index: int = 0) -> PartitionChangeRecord:
    return PartitionChangeRecord(
        index, topic_id_of(name), replicas=list(replicas), directories=[bytes(16)] * len(replicas)
    )


def test_partitions_here_are_made_and_those_that_this_node_leads_first(tmp_path: Path) -> None:
    node = FollowingNode(tmp_path)
    assert node.follow(*topic_records("a", (OTHER, OWN), (OTHER,), (OWN, OTHER))) == [
        ("made", "a-2"),
        ("role", "a-2", OWN),
        ("made", "a-0"),
        ("role", "a-0", OTHER),
    ]


def test_replica_has_its_role_again_with_each_change_and_is_removed_when_it_is_reassigned(tmp_path: Path) -> None:
    node = FollowingNode(tmp_path)
    node.follow(*topic_records("a", (OWN, OTHER), (OTHER, OWN)))
    assert node.follow(PartitionChangeRecord(0, topic_id_of("a"), leader=OTHER)) == [("role", "a-0", OTHER)]
    assert node.follow(reassigned("a", OTHER)) == [("removed", "a-0")]
    assert node.follow(reassigned("a", OTHER, 3)) == [], "it has never been here again"
    assert node.follow(reassigned("a", OWN, OTHER)) == [("made", "a-0"), ("role", "a-0", OTHER)]


def test_replicas_of_a_deleted_topic_are_removed_and_its_settings_are_forgotten(tmp_path: Path) -> None:
    node = FollowingNode(tmp_path)
    node.follow(*topic_records("a", (OWN,), (OTHER,), (OWN,)), *topic_records("b", (OWN,)))
    assert node.follow(RemoveTopicRecord(topic_id_of("a"))) == [("removed", "a-0"), ("removed", "a-2"), ("forget", "a")]
    assert node.here == ["b-0"]


def test_internal_topics_change_in_the_last_step(tmp_path: Path) -> None:
    """Their coordinators change with them, when the image is published."""
    node = FollowingNode(tmp_path)
    steps: list[int] = []
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in [*topic_records(OFFSETS, (OWN,), (OWN,)), *topic_records("a", (OWN,), (OWN,), (OWN,))]:
        delta.replay(record)
    for _ in node.changes.steps(delta, delta.apply(1, 1, 0)):
        steps.append(len(node.here))
    assert steps == [1, 2, 3] and len(node.here) == 5
    node.image = node.metadata.image = delta.apply(1, 1, 0)
    calls = node.follow(RemoveTopicRecord(topic_id_of(OFFSETS)), RemoveTopicRecord(topic_id_of("a")))
    assert [call[1] for call in calls if call[0] == "forget"] == ["a", OFFSETS]


def test_first_image_opens_what_the_disk_has_and_gives_every_topic_its_roles(tmp_path: Path) -> None:
    node = FollowingNode(tmp_path, has_begun=False)
    node.image = MetadataDelta(EMPTY_IMAGE).apply(0, 1, 0)
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in topic_records("old", (OWN,)):
        delta.replay(record)
    node.image = delta.apply(1, 1, 0)
    first, *others = node.follow(*topic_records("new", (OWN,)))
    assert first == ("load", ["new", "old"])
    assert sorted(others) == [("made", "new-0"), ("made", "old-0"), ("role", "new-0", OWN), ("role", "old-0", OWN)]
    assert node.loading.has_begun
    assert node.follow(*topic_records("newer", (OWN,))) == [("made", "newer-0"), ("role", "newer-0", OWN)]


@pytest.mark.parametrize("is_here", [True, False])
def test_replica_that_is_opened_later_gets_its_role_then(
    is_here: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = FollowingNode(tmp_path)
    node.loading.wait_for("a", 0)
    if is_here:
        node.host("a", 0)
    assert node.follow(*topic_records("a", (OTHER, OWN))) == ([("role", "a-0", OTHER)] if is_here else [])
    node.calls.clear()
    if not is_here:
        node.host("a", 0)
    node.loading.apply(node.image, ("a", 0))
    assert node.calls == [("role", "a-0", OTHER)]
    node.calls.clear()
    node.loading.apply(node.image, ("a", 1))
    node.loading.apply(node.image, ("gone", 0))
    assert node.calls == [] and caplog.text == "", "they are not in the image any more"


def test_replica_without_a_directory_has_no_role_and_is_made_by_a_later_attempt(tmp_path: Path) -> None:
    node = FollowingNode(tmp_path)
    node.creation.unmade.add(("a", 0))
    assert node.follow(*topic_records("a", (OWN,))) == []
    node.creation.unmade.clear()
    topic = node.image.topics.by_name["a"]
    node.calls.clear()
    node.partitions.pending.make(node.image, "a", topic.id, 0, topic.partitions[0])
    assert node.calls == [("made", "a-0"), ("role", "a-0", OWN)]


@pytest.mark.parametrize("is_first", [True, False])
async def test_partition_that_cannot_follow_fails_the_start_and_later_only_itself(
    is_first: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = FollowingNode(tmp_path)
    if not is_first:
        node.follow(*topic_records("before", (OTHER,)))
    node.creation.failing.add(("a", 0))
    if is_first:
        with pytest.raises(ZeroDivisionError):
            node.follow(*topic_records("a", (OWN,), (OWN,)))
    else:
        assert node.follow(*topic_records("a", (OWN,), (OWN,))) == [("made", "a-1"), ("role", "a-1", OWN)]
        assert "a bug: applying the metadata to a-0 failed" in caplog.text
    node.partitions.pending.stop()


@pytest.mark.parametrize("other_changes", [0, 2])
@pytest.mark.parametrize("fails", ["creation", "role"])
async def test_partition_that_failed_is_tried_again_and_its_coordinator_begins(
    fails: str, other_changes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The metadata may not change it for days."""
    monkeypatch.setattr(pending_partitions, "RETRY_S", 0.002)
    node, tries, begun = FollowingNode(tmp_path), count(), []
    node.partitions.pending.on_made.append(lambda image: begun.append(image.offset))
    node.follow(*topic_records("before", (OTHER,)))
    part, method = (node.changes._creation, "create") if fails == "creation" else (node.changes._roles, "assign")
    works = getattr(part, method)

    def fail_thrice(*arguments: Any) -> Any:
        if next(tries) < 3:
            raise ZeroDivisionError
        return works(*arguments)

    monkeypatch.setattr(part, method, fail_thrice)
    node.follow(*topic_records("a", (OWN,)))
    for number in range(other_changes):
        node.follow(*topic_records(f"other-{number}", (OTHER,)))
    node.calls.clear()
    assert ("a", 0) in node.partitions.pending
    await eventually(lambda: begun)
    assert node.calls == [("made", "a-0")] * (fails == "creation") + [("role", "a-0", OWN)]
    assert not len(node.partitions.pending) and begun == [node.image.offset]
    assert caplog.text.count("Traceback") == 1, "a bug that repeats is logged once in a while"
    node.partitions.pending.stop()


def test_topics_whose_configuration_changed_are_reconfigured_after_their_partitions(tmp_path: Path) -> None:
    node = FollowingNode(tmp_path)
    calls = node.follow(
        *topic_records("a", (OWN,)),
        ConfigRecord(TOPIC_RESOURCE, "a", "retention.ms", "5"),
        ConfigRecord(BROKER_RESOURCE, "0", "log.retention.ms", "5"),
    )
    assert calls == [("made", "a-0"), ("role", "a-0", OWN), ("configured", "a")]


def test_stop_ends_the_reconfiguration(tmp_path: Path) -> None:
    node = FollowingNode(tmp_path)
    node.changes.stop()
    assert node.calls == [("stop",)]
