"""The deletion of a topic's records before an offset."""

from __future__ import annotations

from collections.abc import Callable

from ..client.user_errors import Misused, UserError
from ..protocol.log_places import LATEST
from . import topic_changes
from .log_offsets import partition_offsets
from .session import Admin
from .topics import described_topics


def trim_topic(
    admin: Admin,
    name: str,
    partition: int | None,
    before: int | None,
    *,
    dry_run: bool,
    note: Callable[[str], object] = lambda words: None,
) -> list[str]:
    """Deletes records before an offset, None for all, of one partition or of all. Returns what was deleted, or with
    `dry_run` what would be. `note` gets a line where a partition ends before the offset.
    """
    (topic,) = described_topics(admin, [name])
    chosen = [one.partition_index for one in topic.partitions if partition in (None, one.partition_index)]
    if not chosen:
        raise Misused(f"{name} has no partition {partition}")
    ends = partition_offsets(admin, [topic], LATEST)
    if leaderless := [f"{name}-{index}" for index in chosen if (name, index) not in ends]:
        raise UserError(
            f"{', '.join(leaderless)}: no leader now, and nothing was deleted; start a broker with a replica"
        )
    offsets = {index: ends[name, index] if before is None else min(before, ends[name, index]) for index in chosen}
    for index, offset in offsets.items():
        if before is not None and offset < before:
            note(f"{name}-{index} ends at {offset}: its records before {offset} are deleted, not before {before}")
    if not dry_run:
        topic_changes.delete_records(admin, {(name, index): offset for index, offset in offsets.items()})
    return [f"{name}-{index}: before offset {offset}" for index, offset in offsets.items()]
