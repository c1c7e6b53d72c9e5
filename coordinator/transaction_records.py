"""Encoding and decoding of `__transaction_state` records, framed as those of `__consumer_offsets`.

Values have version 1, with tagged fields, if the cluster's `transaction.version` is 1 or more; else version 0.
"""

from __future__ import annotations

from ..protocol.buffer import Buffer
from ..protocol.internal.transaction_state import TransactionLogKey, TransactionLogValue
from .record_framing import UnknownRecord, decode_key, decode_value, encode_framed, number_of, prefix
from .result import Record

_KIND = 0
_PREFIX = prefix(_KIND)


def transaction_record(transactional_id: str, value: TransactionLogValue | None, transaction_version: int) -> Record:
    return Record(TransactionLogKey(transactional_id=transactional_id), value, 1 if transaction_version >= 1 else 0)


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    return encode_framed(_PREFIX, record)


def decode_record(key: Buffer, value: Buffer | None) -> Record:
    """Decodes a record. Raises UnknownRecord for an unknown type and MalformedMessage for malformed bytes."""
    kind = number_of(key)
    if kind != _KIND:
        raise UnknownRecord(f"a record of kind {kind}")
    return decode_value(decode_key(TransactionLogKey, key), TransactionLogValue, value)
