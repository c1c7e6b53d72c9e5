"""Opening the metadata log, and what happens when it is damaged.

A node with others in its quorum puts the damaged log aside and fetches it again. Until it has everything that it had, it
stands for no election, and gives its vote only to a replica that has it (`acknowledged`, replication/quorum/core.py). A
voter that is alone has nobody to ask: it refuses to start, and says what a cut would lose and which command decides.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...metadata.image import MetadataImage
from ...storage.directory import LogDirectory
from ...storage.files.open_files import set_aside
from ...storage.files.partition_metadata import CorruptPartitionMetadata, read_topic_id
from ...storage.log.loading import DamagedLog
from .metadata_log import MetadataLost, QuorumLog
from .metadata_survey import loss, named, survey
from .snapshots import sound_snapshots
from .state_file import FILE_NAME as QUORUM_STATE

if TYPE_CHECKING:
    from ..node import Node

log = logging.getLogger("odradek.quorum")


def open_quorum_log(broker: Node, directory: Path) -> QuorumLog:
    """Raises MetadataLost, LogDirectoryFailure, OSError."""
    is_short = False
    snapshots = sound_snapshots(directory)
    try:
        opened = QuorumLog(directory, broker.config, broker.now_ms())
        oldest = opened.log.log_start_offset
        newest = opened.snapshots[-1].end_offset if opened.snapshots else 0
        if oldest <= newest and (opened.end_offset or not snapshots.damaged):
            snapshots.put_aside()
            return opened
        opened.log.close(broker.now_ms(), clean=False)
        name = snapshots.damaged[-1][0].name if snapshots.damaged else "a snapshot"
        damage = f"{directory}/{name}: missing or damaged, and the log begins at offset {oldest}"
        what = "everything before that offset would be lost"
    except DamagedLog as damaged:
        damage, what = str(damaged), loss(directory, damaged)
        is_short = all(one.size == 0 for one in damaged.ranges)
    if _is_alone(broker, directory):
        raise refusal(damage, what, directory.parent)
    decision = f"if no other voter has it, `odradek repair --data-dir {directory.parent}` decides"
    if is_short:
        log.error("%s; the rest is fetched again from the quorum; %s", damage, decision)
    else:
        kept = _begin_again(directory)
        log.error("%s; the log is fetched again from the quorum, and kept as %s; %s", damage, kept, decision)
    return QuorumLog(directory, broker.config, broker.now_ms(), gives_up=True)


def refusal(damage: str, what: str, directory: Path) -> MetadataLost:
    return MetadataLost(
        f"{damage}: {what}; restore the file, or let `odradek repair --data-dir {directory}` show and decide"
    )


def _is_alone(broker: Node, directory: Path) -> bool:
    config = broker.config
    configured = {int(text.partition("@")[0]) for text in config.get("controller.quorum.voters")}
    if not config.is_controller or configured - {broker.node_id}:
        return False
    voters = survey(directory).voters | configured
    return not voters - {broker.node_id} and bool(voters or not config.get("controller.quorum.bootstrap.servers"))


def _begin_again(directory: Path) -> str:
    """An empty log, with the sound snapshots and the votes that were given."""
    sound = [one.file_name for one in sound_snapshots(directory).sound]
    kept = Path(set_aside(str(directory)))
    directory.mkdir()
    for name in (*sound, QUORUM_STATE):
        if (kept / name).is_file():
            shutil.copy2(kept / name, directory / name)
    return str(kept)


def check_partitions(quorum_log: QuorumLog, image: MetadataImage, directories: Sequence[LogDirectory]) -> None:
    """For a log of which nothing says where it ended. Raises MetadataLost where partitions on the disk tell that metadata is
    missing.

    A topic that was deleted just before a crash may leave directories behind; after a clean stop none are left.
    """
    known, unknown = 0, []
    for directory in directories:
        for replica in directory.replicas():
            if replica.suffix:
                continue
            if _topic_id(replica.path) in image.topics.by_id or image.topic(replica.topic) is not None:
                known += 1
            else:
                unknown.append(Path(replica.path).name)
    is_clean = all(directory.had_clean_shutdown for directory in directories)
    if unknown and (is_clean or len(unknown) > known):
        raise refusal(
            f"{quorum_log.directory}: the metadata ends at offset {quorum_log.end_offset}, and does not know the topics of "
            f"{len(unknown)} partitions on the disk ({named(sorted(unknown))})",
            "their records would be put out of sight; is it the metadata.log.dir that the cluster has had?",
            quorum_log.directory.parent,
        )


def _topic_id(path: str) -> bytes | None:
    try:
        return read_topic_id(path)
    except (CorruptPartitionMetadata, IsADirectoryError):
        return None
