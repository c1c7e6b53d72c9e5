"""Errors of a whole ShareFetch or ShareAcknowledge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...coordinator.groups.share.refusals import MAX_MEMBER_ID_LENGTH
from ...metadata.features import SHARE_VERSION
from ...protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ..services import Services


def is_enabled(services: Services) -> bool:
    """Returns True if the finalized features enable share groups."""
    return services.metadata.image.features.level(SHARE_VERSION) > 0


def refuse(services: Services, group_id: str | None, member_id: str | None) -> ErrorCode:
    """Returns the error of a whole ShareFetch or ShareAcknowledge; NONE if it is valid. Kafka sends no error message
    for it.
    """
    if not is_enabled(services):
        return ErrorCode.UNSUPPORTED_VERSION
    if group_id is None or not member_id or len(member_id) > MAX_MEMBER_ID_LENGTH:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE
