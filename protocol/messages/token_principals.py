"""Principals by type and name, as delegation tokens name them (KIP-48)."""

from __future__ import annotations

from ..schema import STRING, Message, struct, wire


@struct
class TokenPrincipal(Message):
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)
