"""Retention deletes segments that are too old, too many, or below the log's start (`cleanup.policy=delete`, DeleteRecords).

Only whole segments go, oldest first, and none that reaches past the high watermark: the log never starts behind it.
The active segment may go too, once another has taken its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..segments.segment import Segment

if TYPE_CHECKING:
    from .config import LogConfig
    from .log import Log

Condition = Callable[[Segment], bool]


def delete_old_segments(
    log: Log, now_ms: int, high_watermark: int, *, defer: bool = False, with_remote_part: bool = False
) -> int:
    """Deletes old segments of one log, under any cleanup policy. Returns their number. `defer`: see `Log.remove_first`.

    A log with a remote part keeps its segments: only what has the metadata of the copies can delete them (`tiers/`). With
    `with_remote_part` they go all the same, as the records of the remote part before them then do.
    Raises LogDirectoryFailure.
    """
    if log.config.remote_storage and not with_remote_part:
        return 0
    conditions: list[Condition] = [
        # As in Kafka the active segment does not go by this one.
        lambda segment: segment is not log.active and segment.next_offset <= log.log_start_offset
    ]
    if log.config.delete:
        conditions += _limits(log, log.config, now_ms)
    return sum(_delete_while(log, condition, now_ms, high_watermark, defer) for condition in conditions)


def _limits(log: Log, config: LogConfig, now_ms: int) -> list[Condition]:
    limits: list[Condition] = []
    if config.retention_bytes >= 0:
        excess = log.size - config.retention_bytes

        def is_too_much(segment: Segment) -> bool:
            nonlocal excess
            excess -= segment.size
            return excess >= 0

        limits.append(is_too_much)
    if config.retention_ms >= 0:
        limits.append(lambda segment: now_ms - segment.newest_ms() > config.retention_ms)
    return limits


def _delete_while(log: Log, condition: Condition, now_ms: int, high_watermark: int, defer: bool) -> int:
    """Deletes the oldest segments that meet the condition, up to the first that does not."""
    count = 0
    for segment in log.segments:
        is_active = segment is log.active
        if (is_active and not segment.size) or segment.next_offset > high_watermark or not condition(segment):
            break
        count += 1
    if count == len(log.segments):
        log.roll(now_ms)
    if count:
        log.remove_first(count, now_ms, defer=defer)
    return count
