"""Ranges of offsets with their delivery state and count, in ReadShareGroupState and WriteShareGroupState (KIP-932)."""

from __future__ import annotations

from ..schema import INT8, INT16, INT64, Message, struct, wire


@struct
class StateBatchData(Message):
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    delivery_state: int = wire(INT8)
    delivery_count: int = wire(INT16)
