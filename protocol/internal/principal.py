"""The principal that a broker forwards in Envelope.

It is preceded by its version, an int16. The default principal builder reads and writes it (KIP-590).
"""

from __future__ import annotations

from ..schema import BOOL, STRING, Message, message, wire


@message("0", flexible="0+")
class DefaultPrincipalData(Message):
    type: str = wire(STRING)
    name: str = wire(STRING)
    token_authenticated: bool = wire(BOOL)
