"""Offset rules of share groups: they commit no offsets, since the persister keeps their state."""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from ..kind import OffsetRules
from ..shard_state import ShardState


def _no_offsets(*_: object) -> ErrorCode:
    return ErrorCode.GROUP_ID_NOT_FOUND


def _never_expired(*_: object) -> bool:
    return False


RULES: OffsetRules[ShardState] = OffsetRules(
    validate_commit=_no_offsets,
    validate_transactional_commit=_no_offsets,
    validate_delete=_no_offsets,
    is_expired=_never_expired,
)
