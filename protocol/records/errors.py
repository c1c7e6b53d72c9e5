"""What can be wrong with record batches. Each error knows the code that a client is told."""

from __future__ import annotations

from typing import ClassVar

from ..errors import ErrorCode


class BatchError(ValueError):
    """Bytes that are not good record batches; `error_code` is what Kafka answers for them."""

    error_code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class CorruptBatch(BatchError):
    """The bytes are damaged: a wrong CRC, an impossible size or magic, a stream that does not decompress."""

    error_code = ErrorCode.CORRUPT_MESSAGE


class InvalidBatch(BatchError):
    """The batch arrived as it was sent, and says what it must not: counts that disagree, records that do not parse."""

    error_code = ErrorCode.INVALID_RECORD


class OldMessageFormat(InvalidBatch):
    """A message set of format 0 or 1, from before Kafka 0.11. Brokers since 4.0 take format 2 only (KIP-724)."""


class UnsupportedCompression(BatchError):
    """A compression type that does not exist, or that this batch must not have."""

    error_code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
