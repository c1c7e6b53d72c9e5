"""Settings of topics on a broker, reports of directories, and the close of all logs, around real partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.metadata.image import TOPIC_RESOURCE, MetadataImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import ConfigRecord
from odradek.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from odradek.server.partitions.directory_reports import DirectoryReports
from odradek.storage.directory import LogDirectory

from tests.server.harness.configured_topics import ConfiguredTopics
from tests.server.harness.hosted import NOW_MS, TOPIC, TOPIC_ID, Hosted, batch
from tests.server.harness.images import image_with, topic_records
from tests.server.harness.log_directories import formatted_directories
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.subsystems import Driver
from tests.server.harness.virtual_time import simulated, turns

OWN = 0
INHERITS, OVERRIDES = "inherits", "overrides"


def image_of(**retention_ms: str) -> MetadataImage:
    """Returns an image of two topics with a partition each; one has a retention of its own, both if the test names it."""
    configs = [
        ConfigRecord(TOPIC_RESOURCE, name, "retention.ms", value)
        for name, value in ({OVERRIDES: "5"} | retention_ms).items()
    ]
    return image_with(*topic_records(INHERITS, (OWN,)), *topic_records(OVERRIDES, (OWN,)), *configs)


def test_topics_without_own_settings_share_those_of_the_broker(tmp_path: Path) -> None:
    node = ConfiguredTopics(tmp_path, image_of(), log_retention_ms="1000")
    image = node.metadata.image
    assert node.settings.of(image, "a") is node.settings.of(image, "b") is node.settings.of(image, INHERITS)
    assert node.settings.of(image, OVERRIDES).log_config.retention_ms == 5
    assert sorted(node.settings.topics()) == ["a", "b", INHERITS, OVERRIDES] and "c" not in node.settings
    node.settings.forget("a")
    assert "a" not in node.settings and "b" in node.settings
    assert not node.settings.refresh(image, OVERRIDES) and node.settings.refresh(image, "a")
    assert not node.settings.refresh_defaults()


def test_changed_default_reaches_the_partitions_of_the_topics_that_inherit_it(tmp_path: Path) -> None:
    async def story() -> None:
        node = ConfiguredTopics(tmp_path, image_of(), log_retention_ms="1000")
        assert node.retention() == {INHERITS: 1000, OVERRIDES: 5}
        node.change_default(log_retention_ms="2000")
        await turns()
        assert node.retention() == {INHERITS: 2000, OVERRIDES: 5}
        assert node.refreshed == [INHERITS]
        node.change_default(log_retention_ms="2000")
        await turns()
        assert node.refreshed == [INHERITS], "it is the same"
        node.change_default(log_retention_ms="3000", log_segment_bytes="2000000")
        await turns()
        assert node.retention() == {INHERITS: 3000, OVERRIDES: 5}
        assert {hosted.log.config.segment_bytes for hosted in node.partitions} == {2_000_000}
        node.reconfiguration.stop()

    simulated(story)


def test_changed_settings_of_a_topic_reach_its_partitions_at_once(tmp_path: Path) -> None:
    node = ConfiguredTopics(tmp_path, image_of(), log_retention_ms="1000")
    image = image_of(inherits="7")
    node.reconfiguration.topic_changed(image, INHERITS)
    assert node.retention() == {INHERITS: 7, OVERRIDES: 5} and node.refreshed == [INHERITS]
    node.reconfiguration.topic_changed(image, "foreign")
    assert "foreign" not in node.settings, "it has no partition here"


# ---- directories


@pytest.fixture
def directories(tmp_path: Path) -> Any:
    opened = formatted_directories(tmp_path, 2)
    yield opened
    for directory in opened:
        directory.close()


@pytest.mark.parametrize("error", [0, ErrorCode.STALE_BROKER_EPOCH])
def test_directories_of_the_replicas_of_an_image_are_reported_in_one_request(
    error: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    controller = Driver()
    directories = [LogDirectory(tmp_path), *formatted_directories(tmp_path, 2)]

    def replica(topic: int, index: int, directory: int) -> Hosted:
        hosted = Hosted(tmp_path, OWN, topic=str(topic), topic_id=bytes([topic]) * 16, index=index)
        hosted.directory = directories[directory]
        return hosted

    async def story() -> None:
        reports = DirectoryReports(OWN, controller)
        for found in (replica(5, 0, 1), replica(5, 1, 1), replica(6, 0, 1), replica(5, 2, 2), replica(6, 1, 0)):
            reports.add(found)
        reports.add(replica(5, 0, 2))
        assert controller.asked == []
        await turns()
        reports.add(replica(7, 0, 1))
        await turns()

    simulated(story)
    for opened in directories[1:]:
        opened.close()
    found = [
        [
            (one.id[0], [(topic.topic_id[0], [p.partition_index for p in topic.partitions]) for topic in one.topics])
            for one in request.directories
        ]
        for request, _, _, _ in controller.asked
    ]
    assert found == [[(2, [(5, [0, 2])]), (1, [(5, [1]), (6, [0])])], [(1, [(7, [0])])]]
    assert {(request.broker_id, request.broker_epoch) for request, _, _, _ in controller.asked} == {(OWN, 77)}
    controller.asked[0][2](AssignReplicasToDirsResponse(error_code=error))
    assert ("the controller rejected" in caplog.text) == (error != 0)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("are_loaded", [True, False])
def test_clean_close_notes_what_the_next_start_need_not_read(
    clean: bool, are_loaded: bool, directories: list[LogDirectory]
) -> None:
    """Before all replicas are open it vouches for none, and a killed process writes nothing."""
    partitions = NotedPartitions(directories=directories)
    if are_loaded:
        partitions.are_loaded = True
    hosted = [Hosted(Path(directory.path), OWN, index=index) for index, directory in enumerate(directories)]
    for one, directory in zip(hosted, directories, strict=True):
        one.directory = directory
        one.lead()
        one.append(batch(3), NOW_MS)
        partitions.add(one)
    assert partitions.get((TOPIC, 0)) is partitions.get_by_id((TOPIC_ID, 0)) is hosted[0]
    partitions.close(77, clean=clean)
    for one, directory in zip(hosted, directories, strict=True):
        assert one.append(batch(1), NOW_MS).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        names = {path.name for path in Path(directory.path).iterdir()}
        assert (".kafka_cleanshutdown" in names) == (clean and are_loaded)
        assert ("replication-offset-checkpoint" in names) == (clean and are_loaded)
        assert (one.log.recovery_point == 3) == clean
        again = LogDirectory.open(directory.path)
        assert again.had_clean_shutdown == (clean and are_loaded)
        assert again.previous_broker_epoch == (77 if clean and are_loaded else -1)
        again.close()
