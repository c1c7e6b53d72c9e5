"""Checks of a whole replica, too dear for each request: simulations and tests make them after each event."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ...storage.log.log import Log
from ...storage.log.log_check import check_log

if TYPE_CHECKING:
    from .replica import Replica


def check_replica(replica: Replica) -> None:
    """Raises AssertionError where a part of the replica contradicts another one."""
    log, role = replica.log, replica.role
    if isinstance(log, Log) and not replica.offline and not replica.is_removed:
        check_log(log)
    high_watermark = role.high_watermark
    assert high_watermark <= role.log_end_offset <= log.log_end_offset, (
        f"{replica!r}: high watermark {high_watermark}, known end {role.log_end_offset}"
    )
    assert log.local_log_start_offset <= high_watermark, (
        f"{replica!r}: high watermark {high_watermark} before the start"
    )
    assert set(role.isr).issubset(role.replicas), f"{replica!r}: the ISR {role.isr} is not within {role.replicas}"
    assert not role.followers or set(role.followers) <= set(role.replicas), f"{replica!r}: followers {role.followers}"
    _check_waiting(replica)


def _check_waiting(replica: Replica) -> None:
    offsets = [offset for offset, _ in replica.waiting_for_commit]
    assert all(one <= following for one, following in pairwise(offsets)), f"{replica!r}: replies wait for {offsets}"
    if offsets:
        assert replica.role.is_leader, f"{replica!r}: replies wait for {offsets}, and another broker leads"
        assert offsets[0] > replica.role.high_watermark, f"{replica!r}: a reply waits for offset {offsets[0]}"
        assert offsets[-1] <= replica.log_end_offset, f"{replica!r}: a reply waits for offset {offsets[-1]}"
