"""Names of the files of a segment, as Kafka has them."""

from __future__ import annotations

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
#: A filter of a segment's keys, which readers make (columns/key_filters.py).
KEY_FILTER_SUFFIX = ".keys"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


def base_offset_of(name: str) -> int | None:
    """The offset that a segment's file is named after, or None when it is no such file."""
    digits = name[:20]
    return int(digits) if len(name) > 20 and name[20] == "." and digits.isascii() and digits.isdigit() else None
