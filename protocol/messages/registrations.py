"""Listeners and features that brokers and controllers register (KIP-631, KIP-919)."""

from __future__ import annotations

from ..schema import INT16, STRING, UINT16, Message, struct, wire


@struct
class RegisteredListener(Message):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)
    security_protocol: int = wire(INT16)


@struct
class RegisteredFeature(Message):
    name: str = wire(STRING)
    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)
