"""The offset to which a follower truncates its log, by leader epochs (KIP-101, KIP-279, KIP-595).

A follower fetches from its log end offset and sends the epoch of its last record (`last_fetched_epoch`). If the
leader's log does not contain that position, the response carries a diverging epoch instead: the largest epoch known
to the leader that is not above the follower's, and its end offset. The logs may differ from there on (`diverging`).
The follower truncates its log accordingly (`truncation_offset`) and fetches again. Each round removes at least one
epoch, so after a few rounds the logs agree and the follower appends what it fetches.
"""

from __future__ import annotations

from collections.abc import Callable

UNDEFINED = -1
#: The end of an epoch in a log: (the largest known epoch not above the requested one, its end offset). (-1, -1) if
#: none.
EndOffsetFor = Callable[[int], tuple[int, int]]


def diverging(fetch_offset: int, last_fetched_epoch: int, epoch: int, end_offset: int) -> tuple[int, int] | None:
    """Returns the diverging epoch and its end offset to send to a follower, None if the follower's log does not
    diverge.

    `epoch` and `end_offset` are what the leader's log holds for `last_fetched_epoch`.
    """
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return epoch, end_offset
    return None


def truncation_offset(
    epoch: int, end_offset: int, *, log_end_offset: int, high_watermark: int, end_offset_for: EndOffsetFor
) -> int:
    """Returns the offset to which a follower truncates after the leader reported that `epoch` ends at `end_offset`.

    `end_offset_for` reads the follower's own log. If the leader has no such epoch, the follower keeps what is committed.
    """
    if end_offset == UNDEFINED:
        return min(high_watermark, log_end_offset)
    if epoch == UNDEFINED:
        return min(end_offset, log_end_offset)
    own_epoch, own_end = end_offset_for(epoch)
    if own_end == UNDEFINED:
        return min(end_offset, log_end_offset)
    if own_epoch != epoch:
        # Records of epochs later than the leader's cannot be in the leader's log. The next fetch checks the rest.
        return min(own_end, log_end_offset)
    return min(own_end, end_offset, log_end_offset)
