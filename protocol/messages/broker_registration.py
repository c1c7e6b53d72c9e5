"""BrokerRegistration (key 62): a broker enters the cluster.

The controller gives it an epoch, which its heartbeats carry, and fences it until it has caught up with the metadata
log. A node id in use by another process is DUPLICATE_BROKER_REGISTRATION until that one's session ends; features must
fit the cluster's (KIP-631).

Versions 0-4, all flexible. Additions by version:
- 1: migration from ZooKeeper (no longer)
- 2: log directories (KIP-858)
- 3: the epoch before a clean shutdown, for eligible leader replicas (KIP-966)
- 4: a feature may start at level 0
"""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, STRING, UUID, Message, Request, array, message, wire
from .registrations import RegisteredFeature, RegisteredListener


@message("0-4", flexible="0+", key=62)
class BrokerRegistrationRequest(Request["BrokerRegistrationResponse"]):
    broker_id: int = wire(INT32)
    cluster_id: str = wire(STRING)
    incarnation_id: bytes = wire(UUID)
    listeners: list[RegisteredListener] = wire(array(RegisteredListener))
    features: list[RegisteredFeature] = wire(array(RegisteredFeature))
    rack: str | None = wire(STRING, nullable="0+")
    is_migrating_zk_broker: bool = wire(BOOL, "1+")
    log_dirs: list[bytes] = wire(array(UUID), "2+")
    previous_broker_epoch: int = wire(INT64, "3+", default=-1)


@message("0-4", flexible="0+", key=62)
class BrokerRegistrationResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    broker_epoch: int = wire(INT64, default=-1)
