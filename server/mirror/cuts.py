"""Cuts of mirrored logs to the last batch that their source has, too (docs/development/mirror.md).

The leader first gets a new epoch, in which it has written nothing. What is cut off is kept as segment files.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ...metadata.mirror_keys import MIRROR_CUT
from ...protocol.records.errors import BatchError
from ...replication.mirror.partition import MirrorState
from ...storage.directory import STRAY_SUFFIX, replica_directory_name
from ...storage.files.failures import LogDirectoryFailure
from ...storage.log.kept_tail import keep_tail, tail_of
from .followed import MirroredPartition
from .here import changed, of_mirror
from .local_batches import batch_at

if TYPE_CHECKING:
    from ...storage.log.cut_copy import CutCopy
    from ..partitions.hosted_partition import HostedPartition
    from .here import Here

log = logging.getLogger("odradek.mirror")


class LinkCuts:
    """The cuts of one link on this broker."""

    def __init__(self, link: str, here: Here) -> None:
        self._link = link
        self._here = here

    async def cut(self, mirrored: MirroredPartition) -> None:
        """Cuts a partition that is CUTTING, or has its leader get a new epoch first: then its next object is cut."""
        hosted = mirrored.hosted
        if not mirrored.is_current or mirrored.is_cut_submitted:
            return
        if _has_written(hosted):
            await self._new_epoch(hosted)
            return
        offset, end = mirrored.log.end, hosted.log_end_offset
        kept, copy = "", None
        if offset < end:
            try:
                kept = await self._keep(hosted, offset, end)
            except LogDirectoryFailure as failure:
                hosted.on_failure(failure)
                return
            copy = await _copied(hosted, offset)
        if self._may_cut(mirrored, end):
            mirrored.is_cut_submitted = True
            self._here.truncations().submit(
                hosted, offset, lambda: self._may_cut(mirrored, end), lambda: self._cut(mirrored, kept, copy)
            )
        elif copy is not None:
            copy.discard()

    def _may_cut(self, mirrored: MirroredPartition, end: int) -> bool:
        hosted = mirrored.hosted
        is_due = mirrored.is_current and mirrored.log.state is MirrorState.CUTTING
        return is_due and hosted.log_end_offset == end and not _has_written(hosted)

    async def _keep(self, hosted: HostedPartition, offset: int, end: int) -> str:
        directory = hosted.directory.path
        folder = f"{directory}/{replica_directory_name(hosted.topic, hosted.index, STRAY_SUFFIX)}"
        line: dict[str, object] = {
            "topic": hosted.topic,
            "partition": hosted.index,
            "link": self._link,
            "first_offset": offset,
            "end_offset": end,
            "cut_ms": self._here.node.clock.now_ms(),
            "directory": folder,
        }
        await asyncio.to_thread(keep_tail, tail_of(hosted.open_log(), offset), directory, folder, line)
        return f", offsets {offset} to {end} are kept in {folder}"

    def _cut(self, mirrored: MirroredPartition, kept: str, copy: CutCopy | None) -> None:
        hosted, now_ms = mirrored.hosted, self._here.node.clock.now_ms()
        mirrored.is_cut_submitted = False
        hosted.open_log().truncate_to(mirrored.log.end, now_ms, copy)
        if copy is not None:
            copy.discard()  # where the log was cut at another offset
        hosted.cut(now_ms)
        mirrored.log.cut(hosted.log_end_offset, batch_at(hosted, hosted.log_end_offset - 1), kept)
        log.warning("link %s: %s: %s", self._link, hosted.name, mirrored.log.reason)
        mirrored.changed(mirrored)

    async def _new_epoch(self, hosted: HostedPartition) -> None:
        epoch = f"{hosted.index}:{hosted.role.leader_epoch}"
        for result in await self._here.alter_configs(of_mirror(self._link, hosted.topic, changed(MIRROR_CUT, epoch))):
            if result.error_code:
                log.warning("link %s: %s gets no new epoch: %s", self._link, hosted.name, result.error_message)


async def _copied(hosted: HostedPartition, offset: int) -> CutCopy | None:
    """Copies what stays of the segment that is cut: its readers keep the former file."""
    try:
        copy = hosted.open_log().copy_for_cut(offset)
    except (BatchError, OSError):
        return None  # the cut fails, too, or has another place
    is_written = copy is not None and await asyncio.to_thread(copy.write)
    return copy if is_written else None


def _has_written(hosted: HostedPartition) -> bool:
    """Whether the log has records of the leader's own epoch."""
    epochs = hosted.open_log().epochs
    return epochs.latest >= hosted.role.leader_epoch and epochs.latest_start < hosted.log_end_offset
