"""Decides by `group.version` and `group.coordinator.rebalance.protocols` whether the groups of KIP-848 are enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.features import GROUP_VERSION

if TYPE_CHECKING:
    from ..services import Services

#: The level of group.version that brings them.
NEEDED_LEVEL = 1


def has_consumer_groups(services: Services) -> bool:
    if services.metadata.image.features.level(GROUP_VERSION) < NEEDED_LEVEL:
        return False
    return "consumer" in services.config.get("group.coordinator.rebalance.protocols")
