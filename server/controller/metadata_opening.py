"""Opening the metadata log.

A node of a larger quorum puts a damaged log aside and fetches it again. Until it has everything that it had, it
stands for no election, and votes only for a replica that has it (`acknowledged`, replication/quorum/core.py). A
single voter cannot fetch it from others: it does not start, and the error names the records that a truncation would
lose and the command for it.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...client.wording import counted
from ...metadata.configs import InvalidConfig
from ...metadata.image import MetadataImage
from ...storage.files.meta_properties import META_PROPERTIES
from ...storage.files.modes import make_folder
from ...storage.files.partition_metadata import CorruptPartitionMetadata, read_topic_id
from ...storage.files.quorum_state import QUORUM_STATE, newest_epoch
from ...storage.files.writes import set_aside, sync_directory, sync_if_exists
from ...storage.log.epochs import UNDEFINED_EPOCH
from ...storage.log.loading import DamagedLog
from ..runtime.sliced_work import Steps
from .flushed_end import FLUSHED_END
from .metadata_log import DIRECTORY_NAME, Loaded, MetadataLost, QuorumLog
from .metadata_snapshots import sound_snapshots

if TYPE_CHECKING:
    from ...storage.directory import LogDirectory
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock

log = logging.getLogger("odradek.quorum")


class InvalidQuorum(InvalidConfig):
    """This node cannot lead the quorum that its directory or its configuration names."""


class OpenedMetadataLog(NamedTuple):
    """The opened log. `loaded`: everything in the log of a single voter; None for any other node, which does not know
    what is committed.
    """

    log: QuorumLog
    loaded: Loaded | None


def open_log(config: BrokerConfig, clock: Clock, directories: Sequence[LogDirectory]) -> Steps[OpenedMetadataLog]:
    """Opens the metadata log, and loads that of a single voter. See QuorumDriver.start."""
    quorum_log = _open_quorum_log(config, clock, Path(config.metadata_log_dir, DIRECTORY_NAME))
    try:
        return (yield from _load(config, clock, quorum_log, directories))
    except BaseException:
        quorum_log.log.close(clock.now_ms(), clean=False)
        raise


def _load(
    config: BrokerConfig, clock: Clock, quorum_log: QuorumLog, directories: Sequence[LogDirectory]
) -> Steps[OpenedMetadataLog]:
    """Loads the log of a single voter."""
    node_id, configured = config.node_id, _configured(config)
    if not config.is_controller or configured - {node_id}:
        return OpenedMetadataLog(quorum_log, None)
    loaded = yield from quorum_log.load(clock.now_ms())
    voters = {voter.voter_id for voter in quorum_log.quorum.voters} | configured
    servers = config.get("controller.quorum.bootstrap.servers")
    if voters - {node_id} or (not voters and servers):
        if node_id not in voters and not servers:
            raise InvalidQuorum(
                f"the voters of the metadata quorum are {sorted(voters)}, and this node is {node_id}: set their "
                "addresses in "
                "controller.quorum.bootstrap.servers where they are reached"
            )
        return OpenedMetadataLog(quorum_log, None)
    _check_directory(quorum_log, directories)
    if not quorum_log.flushed_end.is_known:
        image = loaded.delta.apply(quorum_log.end_offset - 1, loaded.last_epoch, loaded.last_append_timestamp_ms)
        _check_partitions(quorum_log, image, directories)
    return OpenedMetadataLog(quorum_log, loaded)


def _configured(config: BrokerConfig) -> set[int]:
    """Returns the ids in controller.quorum.voters, which apply while the log names no voters."""
    return {int(text.partition("@")[0]) for text in config.get("controller.quorum.voters")}


def _open_quorum_log(config: BrokerConfig, clock: Clock, directory: Path) -> QuorumLog:
    """Opens the log, or begins it again. Raises MetadataLost, LogDirectoryFailure, OSError."""
    is_short = False
    snapshots = sound_snapshots(directory)
    try:
        opened = QuorumLog(directory, config, clock.now_ms())
        oldest = opened.log.log_start_offset
        newest = opened.snapshots[-1].end_offset if opened.snapshots else 0
        if oldest <= newest and (opened.end_offset or not snapshots.damaged):
            epochs = epoch_damage(opened)
            if epochs and _is_alone(config, directory):
                log.warning("%s: %s; the records are whole, and no other voter asks for epochs", directory, epochs)
                epochs = ""
            if not epochs:
                snapshots.rename_damaged()
                return opened
            damage, what = f"{directory}: {epochs}", ""
        else:
            name = snapshots.damaged[-1][0].name if snapshots.damaged else "a snapshot"
            damage = f"{directory}/{name}: missing or damaged, and the log begins at offset {oldest}"
            what = "all records before that offset would be lost"
        opened.log.close(clock.now_ms(), clean=False)
    except DamagedLog as damaged:
        from .metadata_survey import loss

        damage, what = str(damaged), loss(directory, damaged)
        is_short = _is_short(damaged)
    if _is_alone(config, directory):
        raise _validation_error(damage, what, directory.parent)
    decision = f"if no other voter has the log, run `odradek repair --data-dir {directory.parent}`"
    if is_short:
        log.error("%s; the rest is fetched again from the quorum; %s", damage, decision)
    else:
        kept = _begin_again(directory)
        log.error("%s; the log is fetched again from the quorum, and kept as %s; %s", damage, kept, decision)
    return QuorumLog(directory, config, clock.now_ms(), gives_up=True)


def epoch_damage(opened: QuorumLog) -> str:
    """Returns what shows that the epoch of a batch is damaged, or "". No CRC covers it, and a voter wins elections by it.

    Compared are the batches that were read, the file of epochs, the flushed end, and the epochs of the quorum. Epochs begin
    with 1: an operator's decision leaves 0 (repair_decisions.py).
    """
    epochs, recorded = opened.log.epochs, opened.flushed_end.recorded
    if opened.log.epoch_damage:
        return opened.log.epoch_damage
    quorum_epoch = newest_epoch(opened.directory)
    if quorum_epoch and epochs.latest > quorum_epoch:
        return f"the log has the leader epoch {epochs.latest}, and {QUORUM_STATE} {quorum_epoch}"
    found = epochs.epoch_for_offset(recorded.end_offset - 1)
    is_there = opened.log.log_start_offset < recorded.end_offset <= opened.end_offset
    if recorded.epoch and is_there and found not in (UNDEFINED_EPOCH, recorded.epoch):
        return f"offset {recorded.end_offset - 1} has the leader epoch {found}, and {FLUSHED_END} {recorded.epoch}"
    return ""


def _is_short(damaged: DamagedLog) -> bool:
    """Returns whether the log only ends early. A file in the middle that ends early is a hole: the records after it need
    those before them.
    """
    return all(one.size == 0 and one.first_offset >= damaged.end for one in damaged.ranges)


def _validation_error(damage: str, what: str, directory: Path) -> MetadataLost:
    return MetadataLost(f"{damage}: {what}; restore the file, or run `odradek repair --data-dir {directory}`")


def _is_alone(config: BrokerConfig, directory: Path) -> bool:
    """Returns whether this node is the only voter, by what a damaged log still holds."""
    configured = _configured(config)
    if not config.is_controller or configured - {config.node_id}:
        return False
    from .metadata_survey import survey

    voters = survey(directory).voters | configured
    return not voters - {config.node_id} and bool(voters or not config.get("controller.quorum.bootstrap.servers"))


def _begin_again(directory: Path) -> str:
    """Replaces the log by an empty one with the sound snapshots and the election state, on the disk. Returns the old one's
    new path.
    """
    sound = [one.file_name for one in sound_snapshots(directory).sound]
    kept = Path(set_aside(str(directory)))
    make_folder(directory)
    for name in (*sound, QUORUM_STATE):
        if (kept / name).is_file():
            shutil.copy2(kept / name, directory / name)
            sync_if_exists(str(directory / name))
    sync_directory(str(directory))
    sync_directory(str(directory.parent))
    return str(kept)


def _check_directory(quorum_log: QuorumLog, directories: Sequence[LogDirectory]) -> None:
    ids = {directory.directory_id for directory in directories}
    for voter in quorum_log.quorum.voters:
        if (
            any(str(quorum_log.directory.parent.absolute()) == d.path for d in directories)
            and voter.voter_directory_id not in ids
        ):
            raise InvalidQuorum(
                f"{quorum_log.directory.parent}/{META_PROPERTIES}: the directory.id is not that of the voter in the "
                "metadata log; was it copied from another directory? `odradek repair --data-dir "
                f"{quorum_log.directory.parent}` shows the damage and rewrites the file"
            )


def _check_partitions(quorum_log: QuorumLog, image: MetadataImage, directories: Sequence[LogDirectory]) -> None:
    """Checks a log whose end was not recorded against the partitions on the disk. Raises MetadataLost when they show that
    metadata is missing.

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
        from .metadata_survey import named

        raise _validation_error(
            f"{quorum_log.directory}: the metadata ends at offset {quorum_log.end_offset}, and it lacks the topics of "
            f"{counted(len(unknown), 'partition')} on the disk ({named(sorted(unknown))})",
            "their records would become inaccessible; is it the metadata.log.dir that the cluster used before?",
            quorum_log.directory.parent,
        )


def _topic_id(path: str) -> bytes | None:
    try:
        return read_topic_id(path)
    except (CorruptPartitionMetadata, IsADirectoryError):
        return None
