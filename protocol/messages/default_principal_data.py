"""The principal in an Envelope, as Kafka's default principal builder reads and writes it (KIP-590).

An int16 with the version precedes it.
"""

from __future__ import annotations

from ..schema import BOOL, STRING, Message, message, wire


@message("0", flexible="0+")
class DefaultPrincipalData(Message):
    type: str = wire(STRING)
    name: str = wire(STRING)
    token_authenticated: bool = wire(BOOL)
