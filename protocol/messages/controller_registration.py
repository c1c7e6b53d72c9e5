"""ControllerRegistration (key 70): a controller makes its listeners and features known.

To the active controller, after it started and after every change of it; how brokers find all controllers (KIP-919).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT16, INT32, UUID, Message, Request, array, message, wire
from .registrations import RegisteredFeature, RegisteredListener


@message("0", flexible="0+", key=70)
class ControllerRegistrationRequest(Request["ControllerRegistrationResponse"]):
    controller_id: int = wire(INT32)
    incarnation_id: bytes = wire(UUID)
    zk_migration_ready: bool = wire(BOOL)
    listeners: list[RegisteredListener] = wire(array(RegisteredListener))
    features: list[RegisteredFeature] = wire(array(RegisteredFeature))


@message("0", flexible="0+", key=70)
class ControllerRegistrationResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
