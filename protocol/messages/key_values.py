"""Pairs of texts in messages of streams groups: configurations of topics, tags of clients (KIP-1071)."""

from __future__ import annotations

from ..schema import STRING, Message, struct, wire


@struct
class KeyValue(Message):
    key: str = wire(STRING)
    value: str = wire(STRING)
