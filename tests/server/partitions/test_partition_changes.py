"""Partitions that follow deltas of the metadata around scripted parts: what is made, removed, reconfigured, and when."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE, TOPIC_RESOURCE, MetadataImage
from odradek.protocol.internal.cluster_metadata import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from odradek.server.partitions.partition_changes import PartitionChanges

OWN, OTHER = 0, 2
OFFSETS = "__consumer_offsets"
BROKER_RESOURCE = 4


def id_of(topic: str) -> bytes:
    return topic.encode()[-16:].rjust(16, b".")


def topic_of(name: str, *replicas: tuple[int, ...]) -> list[Any]:
    """Returns the records of a topic. Each of its partitions is led by its first replica."""
    return [
        TopicRecord(name, id_of(name)),
        *(
            PartitionRecord(
                partition_id=index, topic_id=id_of(name), replicas=list(ids), isr=list(ids), leader=ids[0], leader_epoch=0,
                partition_epoch=0, directories=[bytes(16)] * len(ids),
            )
            for index, ids in enumerate(replicas)
        ),
    ]  # fmt: skip


def reassigned(name: str, *replicas: int, index: int = 0) -> PartitionChangeRecord:
    return PartitionChangeRecord(index, id_of(name), replicas=list(replicas), directories=[bytes(16)] * len(replicas))


class Node:
    """A broker that follows images. `calls` has what it did to its partitions."""

    def __init__(self, *, has_begun: bool = True) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.here: dict[tuple[str, int], str] = {}
        self.waiting: set[tuple[str, int]] = set()
        self.paused: list[str] = []
        self.has_begun = has_begun
        #: Partitions that cannot be made: without a directory, or by a bug.
        self.unmade: set[tuple[str, int]] = set()
        self.failing: set[tuple[str, int]] = set()
        self.image = EMPTY_IMAGE
        self.metadata: Any = SimpleNamespace(image=EMPTY_IMAGE)
        self.partitions: Any = SimpleNamespace(
            get=self.here.get, remove=self._remove, are_loaded=False,
            pending=SimpleNamespace(paused=self._pending_paused, make=None),
        )  # fmt: skip
        self.loading: Any = SimpleNamespace(
            paused=self._loading_paused,
            load=self._load,
            waiting=self.waiting,
            apply=None,
            has_begun=has_begun,
        )  # fmt: skip
        creation: Any = SimpleNamespace(
            create=self._create, begin_image=lambda: self.calls.append(("begin",)),
            forget_topic=lambda name: self.calls.append(("forget", name)),
        )  # fmt: skip
        roles: Any = SimpleNamespace(
            assign=lambda image, hosted, registration: self.calls.append(("role", hosted, registration.leader))
        )
        reconfiguration: Any = SimpleNamespace(
            topic_changed=lambda image, name: self.calls.append(("configured", name)),
            stop=lambda: self.calls.append(("stop",)),
        )
        self.changes = PartitionChanges(
            OWN, self.metadata, self.partitions, creation, self.loading, roles, reconfiguration
        )

    def _remove(self, hosted: str) -> None:
        topic, _, index = hosted.rpartition("-")
        del self.here[topic, int(index)]
        self.calls.append(("removed", hosted))

    def _create(self, image: Any, topic: str, topic_id: bytes, index: int, registration: Any) -> str | None:
        assert topic_id == id_of(topic) and OWN in registration.replicas and (topic, index) not in self.here
        if (topic, index) in self.failing:
            raise ZeroDivisionError("a bug")
        if (topic, index) in self.unmade:
            return None
        self.here[topic, index] = f"{topic}-{index}"
        self.calls.append(("made", self.here[topic, index]))
        return self.here[topic, index]

    @contextmanager
    def _pending_paused(self) -> Iterator[None]:
        self.paused.append("pending")
        yield
        self.paused.remove("pending")

    @contextmanager
    def _loading_paused(self, image: MetadataImage) -> Iterator[None]:
        self.paused.append("loading")
        yield
        self.paused.remove("loading")

    def _load(self, image: MetadataImage) -> Iterator[None]:
        self.calls.append(("load", sorted(image.topics.by_name)))
        yield

    def follow(self, *records: Any) -> list[tuple[Any, ...]]:
        """Follows the image that the records lead to, and returns the calls. Checks that the rest waits meanwhile."""
        self.calls.clear()
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        image = delta.apply(self.image.offset + 1, 1, 0)
        for _ in self.changes.steps(delta, image):
            assert sorted(self.paused) == ["loading", "pending"]
        assert self.paused == []
        self.image = self.metadata.image = image
        assert self.calls[0] == ("begin",)
        return self.calls[1:]


def test_partitions_here_are_made_and_those_that_this_node_leads_first() -> None:
    node = Node()
    assert node.follow(*topic_of("a", (OTHER, OWN), (OTHER,), (OWN, OTHER))) == [
        ("made", "a-2"),
        ("role", "a-2", OWN),
        ("made", "a-0"),
        ("role", "a-0", OTHER),
    ]


def test_replica_has_its_role_again_with_each_change_and_is_removed_when_it_is_reassigned() -> None:
    node = Node()
    node.follow(*topic_of("a", (OWN, OTHER), (OTHER, OWN)))
    assert node.follow(PartitionChangeRecord(0, id_of("a"), leader=OTHER)) == [("role", "a-0", OTHER)]
    assert node.follow(reassigned("a", OTHER)) == [("removed", "a-0")]
    assert node.follow(reassigned("a", OTHER, 3)) == [], "it has never been here again"
    assert node.follow(reassigned("a", OWN, OTHER)) == [("made", "a-0"), ("role", "a-0", OTHER)]


def test_replicas_of_a_deleted_topic_are_removed_and_its_settings_are_forgotten() -> None:
    node = Node()
    node.follow(*topic_of("a", (OWN,), (OTHER,), (OWN,)), *topic_of("b", (OWN,)))
    assert node.follow(RemoveTopicRecord(id_of("a"))) == [("removed", "a-0"), ("removed", "a-2"), ("forget", "a")]
    assert node.here == {("b", 0): "b-0"}


def test_internal_topics_change_in_the_last_step() -> None:
    """Their coordinators change with them, when the image is published."""
    node = Node()
    steps: list[int] = []
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in [*topic_of(OFFSETS, (OWN,), (OWN,)), *topic_of("a", (OWN,), (OWN,), (OWN,))]:
        delta.replay(record)
    for _ in node.changes.steps(delta, delta.apply(1, 1, 0)):
        steps.append(len(node.here))
    assert steps == [1, 2, 3] and len(node.here) == 5
    node.image = node.metadata.image = delta.apply(1, 1, 0)
    calls = node.follow(RemoveTopicRecord(id_of(OFFSETS)), RemoveTopicRecord(id_of("a")))
    assert [call[1] for call in calls if call[0] == "forget"] == ["a", OFFSETS]


def test_first_image_opens_what_the_disk_has_and_gives_every_topic_its_roles() -> None:
    node = Node(has_begun=False)
    node.image = MetadataDelta(EMPTY_IMAGE).apply(0, 1, 0)
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in topic_of("old", (OWN,)):
        delta.replay(record)
    node.image = delta.apply(1, 1, 0)
    first, *others = node.follow(*topic_of("new", (OWN,)))
    assert first == ("load", ["new", "old"])
    assert sorted(others) == [("made", "new-0"), ("made", "old-0"), ("role", "new-0", OWN), ("role", "old-0", OWN)]
    node.loading.has_begun = True
    assert node.follow(*topic_of("newer", (OWN,))) == [("made", "newer-0"), ("role", "newer-0", OWN)]


@pytest.mark.parametrize("is_here", [True, False])
def test_replica_that_is_opened_later_gets_its_role_then(is_here: bool, caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    node.waiting.update({("a", 0)})
    if is_here:
        node.here["a", 0] = "a-0"
    assert node.follow(*topic_of("a", (OTHER, OWN))) == ([("role", "a-0", OTHER)] if is_here else [])
    node.calls.clear()
    node.here["a", 0] = "a-0"
    node.loading.apply(node.image, ("a", 0))
    assert node.calls == [("role", "a-0", OTHER)]
    node.calls.clear()
    node.loading.apply(node.image, ("a", 1))
    node.loading.apply(node.image, ("gone", 0))
    assert node.calls == [] and caplog.text == "", "they are not in the image any more"


def test_replica_without_a_directory_has_no_role_and_is_made_by_a_later_attempt() -> None:
    node = Node()
    node.unmade.add(("a", 0))
    assert node.follow(*topic_of("a", (OWN,))) == []
    node.unmade.clear()
    topic = node.image.topics.by_name["a"]
    node.calls.clear()
    node.partitions.pending.make(node.image, "a", topic.id, 0, topic.partitions[0])
    assert node.calls == [("made", "a-0"), ("role", "a-0", OWN)]


@pytest.mark.parametrize("is_first", [True, False])
def test_partition_that_cannot_follow_fails_the_start_and_later_only_itself(
    is_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node()
    if not is_first:
        node.follow(*topic_of("before", (OTHER,)))
    node.failing.add(("a", 0))
    if is_first:
        with pytest.raises(ZeroDivisionError):
            node.follow(*topic_of("a", (OWN,), (OWN,)))
    else:
        assert node.follow(*topic_of("a", (OWN,), (OWN,))) == [("made", "a-1"), ("role", "a-1", OWN)]
        assert "a bug: applying the metadata to a-0 failed" in caplog.text


def test_topics_whose_configuration_changed_are_reconfigured_after_their_partitions() -> None:
    node = Node()
    calls = node.follow(
        *topic_of("a", (OWN,)),
        ConfigRecord(TOPIC_RESOURCE, "a", "retention.ms", "5"),
        ConfigRecord(BROKER_RESOURCE, "0", "log.retention.ms", "5"),
    )
    assert calls == [("made", "a-0"), ("role", "a-0", OWN), ("configured", "a")]


def test_stop_ends_the_reconfiguration() -> None:
    node = Node()
    node.changes.stop()
    assert node.calls == [("stop",)]
