"""Validation of requests independent of the group's state, so that it can run before the lookup of the group's shard.

Kafka accepts an empty group id in requests of tools and simple consumers: commits, fetches, descriptions, deletions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.errors import ErrorCode
from ...protocol.messages.heartbeat import HeartbeatRequest
from ...protocol.messages.join_group import JoinGroupRequest
from ...protocol.messages.leave_group import LeaveGroupRequest
from ...protocol.messages.offset_delete import OffsetDeleteRequest
from ...protocol.messages.sync_group import SyncGroupRequest
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ...protocol.schema import Message
from ..groups_config import GroupsConfig

#: The versions of SyncGroup that must include the protocol type and name (KIP-559).
WITH_PROTOCOL_TYPE = SyncGroupRequest.versions_with("protocol_type")
Check = Callable[[GroupsConfig, Any, int], ErrorCode]


def validate(config: GroupsConfig, request: Message, version: int) -> ErrorCode:
    """Returns the first error of the request's checks; NONE for a valid request."""
    for check in CHECKS.get(type(request), ()):
        error = check(config, request, version)
        if error is not ErrorCode.NONE:
            return error
    return ErrorCode.NONE


def group_id_is_given(config: GroupsConfig, request: Any, version: int) -> ErrorCode:
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def session_timeout_is_allowed(config: GroupsConfig, request: JoinGroupRequest, version: int) -> ErrorCode:
    is_allowed = config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms
    return ErrorCode.NONE if is_allowed else ErrorCode.INVALID_SESSION_TIMEOUT


def protocol_is_named(config: GroupsConfig, request: SyncGroupRequest, version: int) -> ErrorCode:
    is_named = request.protocol_type is not None and request.protocol_name is not None
    may_be_left_out = version not in WITH_PROTOCOL_TYPE
    return ErrorCode.NONE if is_named or may_be_left_out else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


CHECKS: dict[type[Message], tuple[Check, ...]] = {
    JoinGroupRequest: (group_id_is_given, session_timeout_is_allowed),
    SyncGroupRequest: (protocol_is_named, group_id_is_given),
    HeartbeatRequest: (group_id_is_given,),
    LeaveGroupRequest: (group_id_is_given,),
    OffsetDeleteRequest: (group_id_is_given,),
    TxnOffsetCommitRequest: (group_id_is_given,),
}
