"""AllocateProducerIds (key 67): a broker takes a block of producer ids from the controller.

A block has a thousand ids. The controller writes it to the metadata log, so that no id is given twice. A stale broker
epoch is an error (KIP-730).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import INT16, INT32, INT64, Message, Request, message, wire


@message("0", flexible="0+", key=67)
class AllocateProducerIdsRequest(Request["AllocateProducerIdsResponse"]):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)


@message("0", flexible="0+", key=67)
class AllocateProducerIdsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id_start: int = wire(INT64)
    producer_id_len: int = wire(INT32)
