"""The principal that a broker forwards in Envelope.

Behind its version, an int16; what the default principal builder reads and writes (KIP-590).
"""

from __future__ import annotations

from ..schema import BOOL, STRING, Message, message, wire


@message("0", flexible="0+")
class DefaultPrincipalData(Message):
    type: str = wire(STRING)
    name: str = wire(STRING)
    token_authenticated: bool = wire(BOOL)
