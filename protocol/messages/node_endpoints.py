"""Addresses of the current leaders that a response to Produce, Fetch, ShareFetch or ShareAcknowledge names (KIP-951)."""

from __future__ import annotations

from ..schema import INT32, STRING, Message, struct, wire


@struct
class NodeEndpoint(Message):
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable="0+", default=None)
