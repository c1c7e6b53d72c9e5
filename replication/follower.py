"""How a follower's log comes to agree with its leader's (KIP-101, KIP-279, KIP-595).

A follower asks for what comes after its last record and says which epoch wrote that (`last_fetched_epoch`). If the leader's
log has no such place, its answer says instead where the largest epoch that it knows, not above that one, ends: from there on
the logs may differ (`diverging`). The follower cuts its log by that (`truncation_offset`) and asks again; each round takes
off at least one epoch, so after a few of them the logs agree, and what follows is appended as it comes.
"""

from __future__ import annotations

from collections.abc import Callable

UNDEFINED = -1

#: The end of an epoch in a log: (the largest epoch known that is not above, its end offset); (-1, -1) for none.
EndOffsetFor = Callable[[int], tuple[int, int]]


def diverging(fetch_offset: int, last_fetched_epoch: int, epoch: int, end_offset: int) -> tuple[int, int] | None:
    """What a leader tells a follower whose log departs from its own, None when it does not.

    `epoch` and `end_offset` are what the leader's log knows of `last_fetched_epoch`.
    """
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return epoch, end_offset
    return None


def truncation_offset(
    epoch: int, end_offset: int, *, log_end_offset: int, high_watermark: int, end_offset_for: EndOffsetFor
) -> int:
    """To where a follower cuts its log after the leader said that `epoch` ends at `end_offset`.

    `end_offset_for` is the follower's own log. Where the leader knows nothing, the follower keeps what is committed.
    """
    if end_offset == UNDEFINED:
        return min(high_watermark, log_end_offset)
    if epoch == UNDEFINED:
        return min(end_offset, log_end_offset)
    own_epoch, own_end = end_offset_for(epoch)
    if own_end == UNDEFINED:
        return min(end_offset, log_end_offset)
    if own_epoch != epoch:
        # What is of later epochs than the leader's cannot be the leader's; the rest is asked about again.
        return min(own_end, log_end_offset)
    return min(own_end, end_offset, log_end_offset)
