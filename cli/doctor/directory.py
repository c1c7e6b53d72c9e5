"""Checks of a data directory without its broker. Nothing is changed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .finding import ERROR, WARNING, Finding, limited

#: Free space of a disk, as a part of it.
_LITTLE, _TOO_LITTLE = 0.15, 0.05
_OFFSET_ENTRY_BYTES, _TIME_ENTRY_BYTES = 8, 12
#: Folders that a broker makes besides partitions.
_OWN_FOLDERS = frozenset(("__cluster_metadata-0",))
_SUFFIXES = {
    "-stray": "a replica that was not assigned to this broker when it started: delete it when no data is missing",
    "-delete": "a deleted partition: the broker removes it within file.delete.delay.ms, or at its next start",
    "-future": "a replica that moves from another log directory: the broker continues when it starts",
}


def check_directory(directory: Path) -> Iterator[Finding]:
    """Raises OSError when the directory cannot be read."""
    yield from _damage(directory)
    yield from _metadata_log(directory)
    yield from limited(_folders(directory))
    yield from limited(_indexes(directory))
    yield from limited(_remote_metadata_logs(directory))
    yield from disk(str(directory), *_space(directory))


def _space(directory: Path) -> tuple[int, int]:
    usage = shutil.disk_usage(directory)
    return usage.free, usage.total


def disk(subject: str, free: int, total: int) -> Iterator[Finding]:
    """A finding for a disk that is almost full. Sizes in bytes."""
    if total <= 0 or free / total >= _LITTLE:
        return
    severity = ERROR if free / total < _TOO_LITTLE else WARNING
    words = f"{free / total:.0%} of the disk is free ({free >> 20} MB)"
    yield Finding(severity, "disk", subject, words, "lower retention.ms or retention.bytes, or add a log directory")


def _damage(directory: Path) -> Iterator[Finding]:
    """Damage, as `odradek repair` shows it, and poisoned batches, as `odradek log check` does."""
    from ...server.controller.repairing import findings

    def found() -> Iterator[Finding]:
        for one in findings(directory, reads_records=True):
            if one.skip is not None:
                advice = (
                    f"stop the broker, then `odradek log skip --data-dir {directory} {one.skip}`: its records are lost"
                )
                yield Finding(ERROR, "poisoned batch", str(directory), one.words, advice)
            elif one.decision is not None:
                advice = f"stop the broker, then `odradek repair --data-dir {directory} {one.decision}`"
                yield Finding(ERROR, "damage", str(directory), one.words, advice)
            else:
                advice = (
                    "the broker repairs it at its next start, from other replicas if there are any; "
                    "see docs/specialists/damage.md"
                )
                yield Finding(WARNING, "damage", str(directory), one.words, advice)

    yield from limited(found())


def _metadata_log(directory: Path) -> Iterator[Finding]:
    """Records that an earlier release wrote and Apache Kafka cannot read."""
    from ...server.controller.metadata_log import DIRECTORY_NAME
    from ...server.controller.metadata_survey import newer_leader_changes

    log = directory / DIRECTORY_NAME
    found = newer_leader_changes(log) if log.is_dir() else []
    if found:
        words = (
            f"{len(found)} LeaderChange records of version 1, the last at offset {found[-1]}: a node of Apache Kafka "
            "that reads one ends"
        )
        advice = (
            "before such a node joins, let a snapshot replace them: start all controllers with "
            "metadata.log.max.snapshot.interval.ms=10000 and metadata.max.retention.bytes=1 until this finding is gone"
        )
        yield Finding(WARNING, "metadata log", str(log), words, advice)


def _folders(directory: Path) -> Iterator[Finding]:
    from ...storage.directory import parse_replica_directory

    for path in sorted(directory.iterdir()):
        if not path.is_dir() or path.name in _OWN_FOLDERS:
            continue
        replica = parse_replica_directory(str(path))
        if replica is None:
            words = "the folder does not belong to a partition"
            yield Finding(WARNING, "stray folder", str(path), words, "move it out of this directory: no broker uses it")
        elif replica.suffix:
            meaning = next((text for suffix, text in _SUFFIXES.items() if suffix in replica.suffix), "left over")
            words, _, advice = meaning.partition(": ")
            yield Finding(WARNING, "stray folder", str(path), words, advice)


def _indexes(directory: Path) -> Iterator[Finding]:
    for log in sorted(directory.glob("*-*/*.log")):
        if log.parent.name in _OWN_FOLDERS:
            continue
        for suffix, entry_bytes in ((".index", _OFFSET_ENTRY_BYTES), (".timeindex", _TIME_ENTRY_BYTES)):
            index = log.with_suffix(suffix)
            if not index.exists():
                yield _index(index, "missing")
            elif index.stat().st_size % entry_bytes:
                yield _index(index, "its size is not a multiple of the entry size")


def _index(path: Path, words: str) -> Finding:
    return Finding(WARNING, "index", str(path), words, "the broker rebuilds it from the segment at its next start")


def _remote_metadata_logs(directory: Path) -> Iterator[Finding]:
    """Records of `__remote_log_metadata` that no node can read."""
    from ...protocol.records.batch import iter_headers
    from ...protocol.records.errors import BatchError
    from ...protocol.records.record import decode_batch
    from ...tiers.events import DamagedMetadata, decode_event
    from ...tiers.segment_metadata import METADATA_TOPIC

    for log in sorted(directory.glob(f"{METADATA_TOPIC}-*/*.log")):
        content = log.read_bytes()
        with suppress(BatchError):  # damage of the file is another finding
            for position, header in iter_headers(content):
                for record in () if header.is_control else decode_batch(content, position, header):
                    try:
                        decode_event(record.value or b"")
                    except DamagedMetadata as error:
                        yield remote_metadata(f"{log}, offset {record.offset}", str(error))


def remote_metadata(subject: str, reason: str) -> Finding:
    words = f"brokers skip this record, which has no metadata of remote segments: {reason}"
    return Finding(
        WARNING, "remote metadata", subject, words, "`odradek tier repair` removes it in the running cluster"
    )
