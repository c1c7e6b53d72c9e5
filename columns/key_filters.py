"""Bloom filters of keys beside closed segments: a query with a condition on the key passes over segments without it.

The first query with such a condition makes the filters of the segments that lack one, in a pass over their keys, where it
may write to the directory. A filter belongs to one content of its segment: base offset, size, time of modification, and the
bytes at both ends of the file. After a compaction or a truncation it is another content, and the filter counts as missing.
So does a damaged one, by its checksum. A missing filter costs time, and changes no result.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from ..protocol.checksum import crc32c
from ..protocol.records.batch import HEADER_BYTES
from ..protocol.records.errors import OldFormatInLog
from ..storage.files.segment_files import KEY_FILTER_SUFFIX, LOG_SUFFIX
from . import kernel
from .errors import ScanError
from .file_reader import FileReader
from .narrowed_splits import without_segments
from .segment import Segment
from .split import Split
from .split_reader import ReadOptions

#: Bytes of a filter: a thousandth of a segment of 1 GiB. It has 800,000 different keys with one false result in 128.
MOST_FILTER_BYTES = 1 << 20
_LEAST_FILTER_BYTES = 1 << 10
#: A filter of a small segment is smaller from the start.
_SEGMENT_SHARE = 32
#: Share of bits that are set: above it a filter is stored without them, since nearly every key would pass.
_MOST_FILLED = 0.9
#: Another format, or another hash in kernel/key_filter.c, has another number.
_MAGIC = b"ODRKEYS1"
_HEAD = struct.Struct(">8sqqqI")
_CHECKSUM = struct.Struct(">I")


class _Identity(NamedTuple):
    """The content that a filter belongs to. `ends`: a checksum of the first and the last bytes of the file."""

    base_offset: int
    size: int
    modified_ns: int
    ends: int


def narrowed(splits: Sequence[Split], keys: Sequence[bytes]) -> Iterator[Split]:
    """The splits, in order, without closed segments that lack one of the keys."""
    if not kernel.has_key_filters():
        return iter(splits)
    return without_segments(splits, lambda segment: all(may_have(segment, key) for key in keys))


def may_have(segment: Segment, key: bytes) -> bool:
    """Returns whether a closed segment may have the key: False is certain. Makes the filter where it is missing."""
    if not kernel.has_key_filters():
        return True
    with suppress(OSError):
        identity = _identity_of(segment)
        bits = _stored(segment, identity)
        if bits is None:
            bits = _made(segment, identity)
        if bits:
            return kernel.may_have_key(bits, key)
    return True


def _identity_of(segment: Segment) -> _Identity:
    fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        last = os.pread(fd, HEADER_BYTES, max(0, status.st_size - HEADER_BYTES))
        return _Identity(
            segment.base_offset,
            status.st_size,
            status.st_mtime_ns,
            crc32c(os.pread(fd, HEADER_BYTES, 0) + last),
        )
    finally:
        os.close(fd)


def _path(segment: Segment) -> str:
    return f"{os.path.dirname(segment.path)}/{segment.base_offset:020d}{KEY_FILTER_SUFFIX}"


def _stored(segment: Segment, identity: _Identity) -> bytes | None:
    """The bits of the stored filter, empty where it has no use; None without one of this content."""
    try:
        with open(_path(segment), "rb") as file:
            content = file.read(_HEAD.size + MOST_FILTER_BYTES + _CHECKSUM.size + 1)
    except FileNotFoundError:
        return None
    if not _HEAD.size + _CHECKSUM.size <= len(content) <= _HEAD.size + MOST_FILTER_BYTES + _CHECKSUM.size:
        return None
    body, (checksum,) = content[: -_CHECKSUM.size], _CHECKSUM.unpack(content[-_CHECKSUM.size :])
    if crc32c(body) != checksum or body[: _HEAD.size] != _HEAD.pack(_MAGIC, *identity):
        return None
    bits = body[_HEAD.size :]
    return bits if len(bits) & (len(bits) - 1) == 0 else None


def _made(segment: Segment, identity: _Identity) -> bytes | None:
    """Makes and stores the filter of a segment. None where it cannot be stored, or the segment cannot be read whole."""
    folder = os.path.dirname(segment.path)
    if not segment.path.endswith(LOG_SUFFIX) or not os.access(folder, os.W_OK):
        return None
    bits = _marked(segment)
    if bits is None or _identity_of(segment) != identity:
        return None
    kept = _folded(bits)
    body = _HEAD.pack(_MAGIC, *identity) + kept
    temporary = f"{_path(segment)}.{os.getpid()}.tmp"  # which a broker removes at its start
    try:
        with open(temporary, "xb") as file:
            os.fchmod(file.fileno(), os.stat(segment.path).st_mode & 0o666)
            file.write(body + _CHECKSUM.pack(crc32c(body)))
        os.replace(temporary, _path(segment))
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
    return kept


def _marked(segment: Segment) -> bytearray | None:
    """The bits of all keys, those of aborted records, too; None where the segment cannot be read whole."""
    assert segment.next_base is not None
    wanted = max(_LEAST_FILTER_BYTES, min(MOST_FILTER_BYTES, segment.size // _SEGMENT_SHARE))
    bits = bytearray(1 << (wanted.bit_length() - 1))
    split = Split("", 0, segment.base_offset, segment.next_base, os.path.dirname(segment.path))
    try:
        for batch in FileReader(split, ReadOptions(("key",))):
            validity, ends, data = batch.column(0).buffers()
            kernel.mark_keys(bits, ends, data or b"", validity)
    except (ScanError, OldFormatInLog):
        return None
    return bits


def _folded(bits: bytearray) -> bytes:
    """The smallest filter with at most half of its bits set. Empty where too many are."""
    number, size = int.from_bytes(bits, "little"), len(bits)
    while size > _LEAST_FILTER_BYTES:
        half = size // 2
        folded = (number & ((1 << (8 * half)) - 1)) | (number >> (8 * half))
        if folded.bit_count() > 4 * half:
            break
        number, size = folded, half
    return number.to_bytes(size, "little") if number.bit_count() <= _MOST_FILLED * 8 * size else b""
