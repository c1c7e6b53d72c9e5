"""FindCoordinator (key 10): the broker that coordinates a group, a transactional id or a share partition.

The key's hash chooses a partition of the internal topic; its leader is the coordinator. The topic is created on first
use, and COORDINATOR_NOT_AVAILABLE is answered until it has a leader. Key type 0 is a group, 1 a transactional id, 2 a
share partition written as "group:topic id:partition".

Versions 0-6, flexible from 3. Additions by version:
- 1: key type; the error in words
- 4: several keys at once (KIP-699)
- 5: may answer TRANSACTION_ABORTABLE (KIP-890)
- 6: share partitions (KIP-932)
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT8, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@message("0-6", flexible="3+", key=10)
class FindCoordinatorRequest(Request["FindCoordinatorResponse"]):
    key: str = wire(STRING, "0-3")
    key_type: int = wire(INT8, "1+")
    coordinator_keys: list[str] = wire(array(STRING), "4+")


@struct
class Coordinator(Message):
    key: str = wire(STRING, "4+")
    node_id: int = wire(INT32, "4+")
    host: str = wire(STRING, "4+")
    port: int = wire(INT32, "4+")
    error_code: int = wire(INT16, "4+")
    error_message: str | None = wire(ERROR_TEXT, "4+", nullable="4+")


@message("0-6", flexible="3+", key=10)
class FindCoordinatorResponse(Message):
    throttle_time_ms: int = wire(INT32, "1+")
    error_code: int = wire(INT16, "0-3")
    error_message: str | None = wire(ERROR_TEXT, "1-3", nullable="1-3")
    node_id: int = wire(INT32, "0-3")
    host: str = wire(STRING, "0-3")
    port: int = wire(INT32, "0-3")
    coordinators: list[Coordinator] = wire(array(Coordinator), "4+")
