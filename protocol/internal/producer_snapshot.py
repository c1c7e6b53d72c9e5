"""The `.snapshot` file of a log: what is known of its idempotent and transactional producers, and the aborted transactions of `.txnindex`."""

from __future__ import annotations

from ..schema import INT16, INT32, INT64, UINT32, Message, array, message, struct, wire


@struct
class ProducerEntry(Message):
    producer_id: int = wire(INT64, "1")
    epoch: int = wire(INT16, "1")
    last_sequence: int = wire(INT32, "1")
    last_offset: int = wire(INT64, "1")
    offset_delta: int = wire(INT32, "1")
    timestamp: int = wire(INT64, "1")
    coordinator_epoch: int = wire(INT32, "1")
    current_txn_first_offset: int = wire(INT64, "1")


@message("1")
class ProducerSnapshot(Message):
    crc: int = wire(UINT32, "1")
    producer_entries: list[ProducerEntry] = wire(array(ProducerEntry), "1")


@message("0")
class AbortedTxn(Message):
    producer_id: int = wire(INT64)
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    last_stable_offset: int = wire(INT64)
