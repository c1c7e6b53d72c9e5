"""Acknowledgements of ranges of offsets, in ShareFetch and ShareAcknowledge (KIP-932)."""

from __future__ import annotations

from ..schema import INT8, INT64, Message, array, struct, wire


@struct
class AcknowledgementBatch(Message):
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    acknowledge_types: list[int] = wire(array(INT8))
