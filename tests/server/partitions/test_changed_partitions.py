"""Partitions that follow an image: those that are led here come first, and changed defaults reach each once."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.metadata.image import TOPIC_RESOURCE
from odradek.protocol.internal.cluster_metadata import ConfigRecord, PartitionChangeRecord
from odradek.storage.files.open_files import OpenFiles
from odradek.storage.log.config import LogConfig

from tests.server.harness.configured_topics import ConfiguredTopics
from tests.server.harness.following_node import OWN, FollowingNode
from tests.server.harness.images import image_with, topic_id_of, topic_records


class File:
    """The owner of an open file that is not in use."""

    used = False

    def __init__(self, number: int, closed: list[int]) -> None:
        self._number, self._closed = number, closed

    def release_file(self) -> None:
        self._closed.append(self._number)


def test_partitions_that_are_led_here_are_applied_first(tmp_path: Path) -> None:
    """Clients wait for leaders; followers are late in any case."""
    node = FollowingNode(tmp_path)
    records = topic_records("a", (2, OWN), (OWN, 2), (OWN, 2), (OWN, 2))
    leaderless = PartitionChangeRecord(2, topic_id_of("a"), leader=-1)
    calls = node.follow(*records, leaderless)
    assert [call[1] for call in calls if call[0] == "role"] == ["a-1", "a-3", "a-0", "a-2"]


@pytest.mark.parametrize(
    ("has_changed", "is_unfinished", "is_reconfigured"),
    [(True, False, True), (False, False, False), (False, True, True), (True, True, True)],
)
def test_topic_is_reconfigured_when_its_settings_changed_or_it_was_not_finished(
    has_changed: bool, is_unfinished: bool, is_reconfigured: bool, tmp_path: Path
) -> None:
    image = image_with(*topic_records("a", (OWN,), (OWN,), (OWN,)))
    node = ConfiguredTopics(tmp_path, image, 0, 1)
    if is_unfinished:
        node.reconfiguration._unfinished.add("a")
    change = [ConfigRecord(TOPIC_RESOURCE, "a", "retention.ms", "5")] if has_changed else []
    before = LogConfig(retention_ms=9)
    for hosted in node.partitions:
        hosted.log.config = before
    newer = image_with(*change, before=image)
    for _ in node.reconfiguration._reconfigure(newer, "a"):
        assert node.reconfiguration._unfinished == {"a"}
    assert len(node.refreshed) == (2 if is_reconfigured else 0)
    expected = node.settings.of(newer, "a").log_config if is_reconfigured else before
    assert [hosted.log.config for hosted in node.partitions] == [expected] * 2
    assert node.reconfiguration._unfinished == set()


@pytest.mark.parametrize(("count", "left"), [(9, 4), (2, 1), (1, 0), (0, 0)])
def test_half_of_the_open_files_are_closed_when_descriptors_are_short(count: int, left: int) -> None:
    closed: list[int] = []
    files = OpenFiles(100)
    for number in range(count):
        files.admit(File(number, closed))
    assert files.close_some() == (count > 0)
    assert (len(files), closed) == (left, list(range(count - left)))
