"""Listeners of a voter, in AddRaftVoter and UpdateRaftVoter (KIP-853)."""

from __future__ import annotations

from ..schema import STRING, UINT16, Message, struct, wire


@struct
class VoterListener(Message):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)
