"""Errors of record batches. Each has the error code for the client."""

from __future__ import annotations

from typing import ClassVar

from ..errors import ErrorCode


class BatchError(ValueError):
    """The bytes are not valid record batches; `error_code` is Kafka's error for them."""

    error_code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class CorruptBatch(BatchError):
    """The bytes are damaged: a wrong CRC, an impossible size or magic, a stream that does not decompress."""

    error_code = ErrorCode.CORRUPT_MESSAGE


class TooLargeDecompressed(CorruptBatch):
    """The decompressed records exceed the size limit."""


class InvalidBatch(BatchError):
    """The batch is undamaged, but its content is invalid: inconsistent counts, or records that do not parse."""

    error_code = ErrorCode.INVALID_RECORD


class OldMessageFormat(InvalidBatch):
    """A message set of format 0 or 1, from before Kafka 0.11. Brokers since 4.0 accept only format 2 (KIP-724)."""


class OldFormatInLog(OldMessageFormat):
    """A log on disk contains such a message set, written by a broker before 4.0."""

    error_code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT

    def __init__(self, path: str, message_format: int) -> None:
        super().__init__(
            f"{path} has records of message format {message_format}, from before Kafka 0.11; format 2 only is read here "
            "(KIP-724): let an Apache Kafka broker serve the topic and a client copy it to a new one"
        )


class UnsupportedCompression(BatchError):
    """A compression type that does not exist, or that is not allowed for this batch."""

    error_code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
