"""BrokerHeartbeat (key 63): a broker is alive, and how far it is in the metadata log.

Asks to be unfenced when it has caught up, and to shut down in order: leadership is taken off it first (KIP-631).
Silence for `broker.session.timeout.ms` fences it.

Versions 0-2, all flexible. Additions by version:
- 1: log directories that have failed (KIP-858)
- 2: log directories that take no new partitions (KIP-1066)
"""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, UUID, Message, Request, array, message, wire


@message("0-2", flexible="0+", key=63)
class BrokerHeartbeatRequest(Request["BrokerHeartbeatResponse"]):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)
    current_metadata_offset: int = wire(INT64)
    want_fence: bool = wire(BOOL)
    want_shut_down: bool = wire(BOOL)
    offline_log_dirs: list[bytes] = wire(array(UUID), "1+", tag=0)
    cordoned_log_dirs: list[bytes] | None = wire(array(UUID), "2+", nullable="2+", tag=1, default=None)


@message("0-2", flexible="0+", key=63)
class BrokerHeartbeatResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    is_caught_up: bool = wire(BOOL)
    is_fenced: bool = wire(BOOL, default=True)
    should_shut_down: bool = wire(BOOL)
