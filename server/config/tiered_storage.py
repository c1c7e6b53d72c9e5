"""The keys that enable tiered storage (KIP-405)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.configs import InvalidConfig

if TYPE_CHECKING:
    from ...metadata.configs import BrokerValues

TIERED_SYSTEM_KEY = "remote.log.storage.system.enable"
_TIERED_STORE_KEY = "remote.log.storage.manager.class.name"
_TIERED_METADATA_KEY = "remote.log.metadata.manager.class.name"
_TIERED_METADATA_CLASS = "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"


def is_tiered(values: BrokerValues) -> bool:
    if not values.get(TIERED_SYSTEM_KEY):
        return False
    if not values.get(_TIERED_STORE_KEY) and "broker" in str(values.texts["process.roles"]):
        raise InvalidConfig(f"{TIERED_SYSTEM_KEY}=true: {_TIERED_STORE_KEY} names the store of remote segments")
    if values.get(_TIERED_METADATA_KEY) != _TIERED_METADATA_CLASS:
        raise InvalidConfig(f"{_TIERED_METADATA_KEY}: the only one is {_TIERED_METADATA_CLASS}")
    return True
