"""The first validation of a produced batch: a batch that passes is written unchanged.

One walk checks that the header, the CRC, the records and the topic's rules agree. The kernel (kernel/validation.c)
does all of it but the CRC in one call, for gzip and zstd where the packages `isal` and `zstandard` are installed;
without the kernel, this module does the same. `batch_validation.py` decides on batches that do not pass, so this
validation may reject good batches, and never accepts bad ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.behaviour_versions import PRODUCE_WITH_ZSTD
from ...protocol.checksum import crc32c
from ...protocol.records.batch import (
    COMPRESSION_MASK,
    CRC_FROM,
    HEADER_BYTES,
    LOG_OVERHEAD,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from ...protocol.records.compression_type import Compression
from ...protocol.records.errors import CorruptBatch
from ...protocol.records.walk import INT_MAX, LONG_MAX, raw_walk
from ...storage.segments.timestamps import OPENED_AT_ONCE_BYTES
from .decompression import AT_ONCE

if TYPE_CHECKING:
    from ...protocol.buffer import Buffer
    from .append_rules import AppendRules
    from .decompression import InlineBudget

try:
    from odradek_kernel import validate_batch as _validate_batch
except ImportError:  # pip had no compiler; the kernel may be of another version in a checkout.
    _validate_batch = None

_unpack_header = struct.Struct(">qiibIhiqqqhii").unpack_from
_new_tuple = tuple.__new__
#: The last codec.
_ZSTD = int(Compression.ZSTD)
#: A batch with greater attributes has a flag besides its codec: it is transactional.
MAX_ATTRIBUTES_WITHOUT_FLAGS = _ZSTD
#: The kernel leaves the records to a library.
_UNOPENED = -1


def pure_validated_header(
    records: Buffer, version: int, now_ms: int, rules: AppendRules, base_offset: int, leader_epoch: int
) -> BatchHeader | None:
    """Returns the header of a batch that is plainly good, with its offset and epoch; None for any other.

    `records` has a header's size or more. `version` is that of the Produce request. Whether a transaction is open is not
    looked at.
    """
    (
        first_offset, length, _, magic, crc, attributes, last_delta, base_timestamp, max_timestamp, producer_id,
        producer_epoch, sequence, count,
    ) = _unpack_header(records)  # fmt: skip
    codec = attributes & ~TRANSACTIONAL_FLAG
    if (
        magic != 2
        or first_offset != 0
        or length + LOG_OVERHEAD != len(records)
        or not 0 <= codec <= _ZSTD
        or (codec == _ZSTD and version not in PRODUCE_WITH_ZSTD)
        or not 0 < count == last_delta + 1
        or (producer_id >= 0 > sequence)
        or crc32c(memoryview(records)[CRC_FROM:]) != crc
    ):
        return None
    fields = (
        base_offset, length, leader_epoch, 2, crc, attributes, last_delta, base_timestamp, max_timestamp, producer_id,
        producer_epoch, sequence, count,
    )  # fmt: skip
    header = _new_tuple(BatchHeader, fields)
    if not rules.checked_codecs >> codec & 1:
        return header if max_timestamp <= now_ms + rules.timestamp_after_max_ms else None
    budget = AT_ONCE.budget.of_request(now_ms)
    if count > budget.records_left or (codec and len(records) - HEADER_BYTES > OPENED_AT_ONCE_BYTES):
        return None
    return header if _has_good_records(records, header, now_ms, rules, budget) else None


def _has_good_records(
    records: Buffer, header: BatchHeader, now_ms: int, rules: AppendRules, budget: InlineBudget
) -> bool:
    """Returns whether the records match the header and the topic's rules, as far as the loop can check at once."""
    payload: Buffer | None = records
    count, start, most = header.record_count, HEADER_BYTES, INT_MAX
    budget.records_left -= count
    codec = header.attributes & COMPRESSION_MASK
    if codec:
        try:
            payload = budget.decompress(codec, memoryview(records)[HEADER_BYTES:])
        except CorruptBatch:
            return False
        if payload is None:
            return False
        start, most = 0, rules.max_decompressed_bytes
    latest = min(now_ms + rules.timestamp_after_max_ms, LONG_MAX)
    earliest = now_ms - rules.timestamp_before_max_ms
    found = raw_walk(payload, start, count, most, header.base_timestamp, earliest, latest, rules.compact, False)
    return found == (0, header.max_timestamp, 0, 0, 0)


def _compiled_validated_header(
    records: Buffer, version: int, now_ms: int, rules: AppendRules, base_offset: int, leader_epoch: int
) -> BatchHeader | None:
    """Does the same by the kernel."""
    budget = AT_ONCE.budget
    if budget.request_ms != now_ms:
        budget.begin(now_ms)
    found = _validate_batch(
        records, budget.scratch, version, now_ms, rules.timestamp_before_max_ms, rules.timestamp_after_max_ms,
        rules.max_decompressed_bytes, rules.compact, rules.checked_codecs, budget.records_left,
        OPENED_AT_ONCE_BYTES if budget.bytes_left > 0 else 0, base_offset, leader_epoch,
    )  # fmt: skip
    if found is None:
        return None
    *fields, decompressed_bytes = found
    header: BatchHeader = _new_tuple(BatchHeader, fields)
    if crc32c(memoryview(records)[CRC_FROM:]) != header.crc:
        return None
    if decompressed_bytes == _UNOPENED:
        return header if _has_good_records(records, header, now_ms, rules, budget) else None
    budget.bytes_left -= decompressed_bytes
    budget.records_left -= header.record_count
    return header


validated_header: Callable[[Buffer, int, int, AppendRules, int, int], BatchHeader | None] = (
    pure_validated_header if _validate_batch is None else _compiled_validated_header
)
