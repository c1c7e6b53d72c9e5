"""The dead-letter queues of share groups (KIP-1191)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...admin.configs import config_values

if TYPE_CHECKING:
    from ...admin.session import Admin

_QUEUE = "errors.deadletterqueue.topic.name"


def queue_of(admin: Admin, group: str) -> str:
    """The topic of a share group's dead-letter queue; "" without one, and from brokers that have none."""
    found = config_values(admin, "group", group)
    return found[_QUEUE].value or "" if _QUEUE in found else ""
