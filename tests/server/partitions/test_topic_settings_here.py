"""Settings of topics on a broker, reports of directories, and the close of all logs, around real partitions."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE, TOPIC_RESOURCE, MetadataImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import ConfigRecord, PartitionRecord, TopicRecord
from odradek.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.partitions.directory_reports import DirectoryReports
from odradek.server.partitions.partitions import Partitions
from odradek.server.partitions.pending_partitions import PendingPartitions
from odradek.server.partitions.reconfiguration import Reconfiguration
from odradek.server.partitions.topic_settings import SettingsByTopic
from odradek.server.runtime.log_lines import RepeatedLines
from odradek.server.runtime.metadata_cache import MetadataCache
from odradek.storage.directory import LogDirectory
from odradek.storage.files.meta_properties import MetaProperties, write_meta_properties

from tests.server.harness.hosted import NOW_MS, TOPIC, TOPIC_ID, Hosted, batch
from tests.server.harness.virtual_time import simulated, turns

OWN = 0
INHERITS, OVERRIDES = "inherits", "overrides"


def image_of(**retention_ms: str) -> MetadataImage:
    """Returns an image of two topics with a partition each; one has a retention of its own, both if the test names it."""
    delta = MetadataDelta(EMPTY_IMAGE)
    for name in (INHERITS, OVERRIDES):
        topic_id = name.encode().ljust(16, b".")
        delta.replay(TopicRecord(name, topic_id))
        delta.replay(PartitionRecord(0, topic_id, [OWN], [OWN], leader=OWN, leader_epoch=0, directories=[bytes(16)]))
    for name, value in ({OVERRIDES: "5"} | retention_ms).items():
        delta.replay(ConfigRecord(TOPIC_RESOURCE, name, "retention.ms", value))
    return delta.apply(1, 1, 0)


class Configured:
    """The partitions of both topics, and what hands them their settings."""

    def __init__(self, **properties: str) -> None:
        self.config = BrokerConfig({key.replace("_", "."): value for key, value in properties.items()})
        self.settings = SettingsByTopic(self.config)
        self.metadata: Any = SimpleNamespace(image=image_of())
        self.refreshed: list[str] = []
        self.partitions: Any = {(name, 0): self._partition(name) for name in (INHERITS, OVERRIDES)}
        self.reconfiguration = Reconfiguration(self.config, self.metadata, self.settings, self.partitions)

    def _partition(self, name: str) -> Any:
        config, rules = self.settings.of(self.metadata.image, name)
        return SimpleNamespace(
            log=SimpleNamespace(config=config), rules=rules, refresh_append_state=lambda: self.refreshed.append(name)
        )

    def retention(self) -> dict[str, int]:
        return {name: self.partitions[name, 0].log.config.retention_ms for name in (INHERITS, OVERRIDES)}

    def change_default(self, **values: str) -> None:
        self.config.take_dynamic({key.replace("_", "."): value for key, value in values.items()}, {})


def test_topics_without_own_settings_share_those_of_the_broker() -> None:
    node = Configured(log_retention_ms="1000")
    image = node.metadata.image
    assert node.settings.of(image, "a") is node.settings.of(image, "b") is node.settings.of(image, INHERITS)
    assert node.settings.of(image, OVERRIDES).log_config.retention_ms == 5
    assert sorted(node.settings.topics()) == ["a", "b", INHERITS, OVERRIDES] and "c" not in node.settings
    node.settings.forget("a")
    assert "a" not in node.settings and "b" in node.settings
    assert not node.settings.refresh(image, OVERRIDES) and node.settings.refresh(image, "a")
    assert not node.settings.refresh_defaults()


def test_changed_default_reaches_the_partitions_of_the_topics_that_inherit_it() -> None:
    async def story() -> None:
        node = Configured(log_retention_ms="1000")
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
        assert node.partitions[OVERRIDES, 0].log.config.segment_bytes == 2_000_000
        node.reconfiguration.stop()

    simulated(story)


def test_changed_settings_of_a_topic_reach_its_partitions_at_once() -> None:
    node = Configured(log_retention_ms="1000")
    image = image_of(inherits="7")
    node.reconfiguration.topic_changed(image, INHERITS)
    assert node.retention() == {INHERITS: 7, OVERRIDES: 5} and node.refreshed == [INHERITS]
    node.reconfiguration.topic_changed(image, "foreign")
    assert "foreign" not in node.settings, "it has no partition here"


# ---- directories


@pytest.fixture
def directories(tmp_path: Path) -> Any:
    found = []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        write_meta_properties(str(tmp_path / str(number)), MetaProperties("c", OWN, bytes([number + 1]) * 16))
        found.append(LogDirectory.open(str(tmp_path / str(number))))
    yield found
    for directory in found:
        directory.close()


@pytest.mark.parametrize("error", [0, ErrorCode.STALE_BROKER_EPOCH])
def test_directories_of_the_replicas_of_an_image_are_reported_in_one_request(
    error: int, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[tuple[Any, ...]] = []
    controller: Any = SimpleNamespace(broker_epoch=77, submit=lambda *given: asked.append(given))

    def replica(topic: int, index: int, directory: int) -> Any:
        name = bytes([directory]) * 16 if directory else None
        return SimpleNamespace(topic_id=bytes([topic]) * 16, index=index, directory=SimpleNamespace(directory_id=name))

    async def story() -> None:
        reports = DirectoryReports(OWN, controller)
        for found in (replica(5, 0, 1), replica(5, 1, 1), replica(6, 0, 1), replica(5, 2, 2), replica(6, 1, 0)):
            reports.add(found)
        reports.add(replica(5, 0, 2))
        assert asked == []
        await turns()
        reports.add(replica(7, 0, 1))
        await turns()

    simulated(story)
    found = [
        [
            (one.id[0], [(topic.topic_id[0], [p.partition_index for p in topic.partitions]) for topic in one.topics])
            for one in request.directories
        ]
        for request, _, _ in asked
    ]
    assert found == [[(2, [(5, [0, 2])]), (1, [(5, [1]), (6, [0])])], [(1, [(7, [0])])]]
    assert {(request.broker_id, request.broker_epoch) for request, _, _ in asked} == {(OWN, 77)}
    asked[0][2](AssignReplicasToDirsResponse(error_code=error))
    assert ("the controller rejected" in caplog.text) == (error != 0)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("are_loaded", [True, False])
def test_clean_close_notes_what_the_next_start_need_not_read(
    clean: bool, are_loaded: bool, directories: list[LogDirectory]
) -> None:
    """Before all replicas are open it vouches for none, and a killed process writes nothing."""
    clock: Any = SimpleNamespace(now_ms=lambda: NOW_MS)
    pending = PendingPartitions(OWN, clock, MetadataCache(), RepeatedLines())
    partitions = Partitions(directories, pending, clock, RepeatedLines(), lambda failure: None)
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
