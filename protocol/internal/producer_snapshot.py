"""Producer state of a log in separate files: the `.snapshot` file and the entries of `.txnindex`.

A snapshot is the version as an int16, then this message, its CRC-32C over everything after the CRC: id, epoch, last
sequence and offset of each idempotent producer, and the start offset of its open transaction (KIP-98). An entry of the
transaction index is the version as an int16 and one aborted transaction. Consumers with read_committed get those that
overlap the fetched records.
"""

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
