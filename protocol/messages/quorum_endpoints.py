"""Addresses of the leader of the KRaft quorum, in requests and responses between its nodes (KIP-853)."""

from __future__ import annotations

from ..schema import INT32, STRING, UINT16, Message, struct, wire


@struct
class QuorumEndpoint(Message):
    node_id: int = wire(INT32, "1+")
    host: str = wire(STRING, "1+")
    port: int = wire(UINT16, "1+")


@struct
class LeaderEndpoint(Message):
    name: str = wire(STRING, "1+")
    host: str = wire(STRING, "1+")
    port: int = wire(UINT16, "1+")
