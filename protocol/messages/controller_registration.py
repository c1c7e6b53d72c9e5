"""ControllerRegistration (key 70): a controller makes its listeners and features known.

To the active controller, after it started and after every change of it; how brokers find all controllers (KIP-919).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT16, INT32, STRING, UINT16, UUID, Message, array, message, struct, wire


@struct
class Listener(Message):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)
    security_protocol: int = wire(INT16)


@struct
class Feature(Message):
    name: str = wire(STRING)
    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


@message("0", flexible="0+", key=70)
class ControllerRegistrationRequest(Message):
    controller_id: int = wire(INT32)
    incarnation_id: bytes = wire(UUID)
    zk_migration_ready: bool = wire(BOOL)
    listeners: list[Listener] = wire(array(Listener))
    features: list[Feature] = wire(array(Feature))


@message("0", flexible="0+", key=70)
class ControllerRegistrationResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
