"""Committed records become metadata images; a fetched snapshot does so in steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.metadata.transactions import MetadataTransactions
from odradek.protocol.internal import cluster_metadata as records
from odradek.protocol.records.errors import CorruptBatch
from odradek.protocol.schema import Message
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.commits import Commits
from odradek.server.controller.metadata_log import QuorumLog
from odradek.server.controller.metadata_snapshots import SnapshotId, write_image_snapshot
from odradek.server.controller.quorum_voters import QuorumVoters
from odradek.server.runtime.sliced_work import run_to_completion

#: More records than one batch has.
PARTITIONS = 1500


def topic(name: str, partitions: int) -> list[Message]:
    topic_id = name.encode().ljust(16, b".")
    made: list[Message] = [records.TopicRecord(name=name, topic_id=topic_id)]
    for index in range(partitions):
        made.append(
            records.PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
            )
        )
    return made


def image_of(made: Sequence[Message], offset: int, epoch: int) -> MetadataImage:
    delta = MetadataDelta()
    for record in [records.FeatureLevelRecord("metadata.version", 30), *made]:
        delta.replay(record)
    return delta.apply(offset, epoch, 5)


@pytest.fixture
def quorum_log(tmp_path: Path) -> QuorumLog:
    (tmp_path / "log").mkdir()
    return QuorumLog(tmp_path / "log", BrokerConfig({}), 1)


@pytest.fixture
def commits(quorum_log: QuorumLog) -> Commits:
    """Returns the commits of a node that has published a topic absent from the snapshots, and one that is in them."""
    published = image_of([*topic("gone", 2), *topic("stays", 2)], 9, 1)
    return Commits(quorum_log, MetadataDelta(published), published, MetadataTransactions())


def fetched(quorum_log: QuorumLog, image: MetadataImage) -> SnapshotId:
    snapshot = write_image_snapshot(quorum_log.directory, image, QuorumVoters(), 1)
    quorum_log.replaced_by(snapshot, 1)
    return snapshot


def test_a_snapshot_that_was_fetched_is_loaded_in_steps(commits: Commits, quorum_log: QuorumLog) -> None:
    after = image_of([*topic("stays", 2), *topic("new", PARTITIONS)], 99, 3)
    commits.replaced(fetched(quorum_log, after))
    assert commits.is_replaced and commits.offset == 10
    quorum_log.append(topic("behind", 1), 3, 6, 30, True)
    steps = 0
    for _ in commits.load():
        steps += 1
        assert commits.is_replaced and not commits.advance(102), "nothing is replayed in between"
    assert steps > 2 * PARTITIONS
    assert (commits.is_replaced, commits.offset) == (False, 100)
    delta, image = commits.take()
    assert image == after
    assert set(delta.topics.created.values()) == {"new"}
    assert [gone.name for gone in delta.topics.deleted.values()] == ["gone"]
    assert {changed.before.name for changed in delta.topics.changed.values()} == {"new"}, "what is the same is not told"
    assert commits.advance(102) and commits.take()[1].topic("behind") is not None


def test_the_last_of_several_snapshots_counts(commits: Commits, quorum_log: QuorumLog) -> None:
    first, last = image_of(topic("first", 20), 99, 3), image_of(topic("last", 20), 199, 4)
    commits.replaced(fetched(quorum_log, first))
    loading = commits.load()
    for _ in range(10):
        next(loading)
    commits.replaced(fetched(quorum_log, last))
    for _ in loading:
        assert commits.is_replaced
    assert (commits.offset, commits.take()[1]) == (200, last)


def test_first_image_is_built_from_snapshot(quorum_log: QuorumLog) -> None:
    after = image_of(topic("t", PARTITIONS), 99, 3)
    commits = Commits(quorum_log, MetadataDelta(), EMPTY_IMAGE, MetadataTransactions())
    commits.replaced(fetched(quorum_log, after))
    assert sum(1 for _ in commits.load()) < 2 * PARTITIONS
    delta, image = commits.take()
    assert image == after and delta.image is EMPTY_IMAGE and set(delta.topics.created.values()) == {"t"}


def test_a_snapshot_that_is_damaged_or_cut_off_is_refused(commits: Commits, quorum_log: QuorumLog) -> None:
    snapshot = fetched(quorum_log, image_of(topic("t", PARTITIONS), 99, 3))
    path = quorum_log.directory / snapshot.file_name
    data = path.read_bytes()
    path.chmod(0o600)
    for damaged in (data[:-10], data[:30], data[:300] + b"?" + data[301:]):
        path.write_bytes(damaged)
        commits.replaced(snapshot)
        with pytest.raises(CorruptBatch):
            run_to_completion(commits.load())
        assert commits.is_replaced and commits.offset == 10
