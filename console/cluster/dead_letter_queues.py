"""The dead-letter queues of share groups (KIP-1191)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...admin.configs import Kind, describe_configs
from ...admin.errors import ResponseError
from ...protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ...admin.session import Admin

_QUEUE = "errors.deadletterqueue.topic.name"


def queue_of(admin: Admin, group: str) -> str | None:
    """The topic of a share group's dead-letter queue; "" without one, and from brokers that have none; None where this user
    may not know it.
    """
    try:
        found = describe_configs(admin, Kind.GROUP, group)
    except ResponseError as error:
        if error.is_denial:
            return None
        if error.code == ErrorCode.INVALID_REQUEST:  # brokers without configs of groups
            return ""
        raise
    return found[_QUEUE].value or "" if _QUEUE in found else ""
