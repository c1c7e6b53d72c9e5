"""Buffers that grow while a frame arrives.

A large one is a mapping of memory as long as its frame will be. To grow it takes no copy, and a page costs something only
when its bytes arrive: copying 90 MB holds the event loop for 50 ms.
"""

from __future__ import annotations

import mmap

FrameBuffer = bytearray | memoryview

#: The most that one read takes. Two or three of librdkafka's or the Java producer's larger requests.
READ_BUFFER_BYTES = 256 * 1024
#: Smaller buffers come from the heap, which is quicker for sizes that are needed again and again.
_HEAP_BYTES = 4 << 20
#: Windows has neither.
_PRIVATE = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)


def grown(buffer: FrameBuffer, size: int, needed: int) -> FrameBuffer:
    """Returns a buffer of `size` bytes that begins with those of `buffer`. `needed`: the size that it will have at last."""
    if type(buffer) is memoryview:
        return memoryview(buffer.obj)[:size]
    larger: FrameBuffer
    try:
        mapping = mmap.mmap(-1, needed, flags=_PRIVATE) if size > _HEAP_BYTES and _PRIVATE else None
    except OSError:  # an address space that is limited
        mapping = None
    larger = bytearray(size) if mapping is None else memoryview(mapping)[:size]
    larger[: len(buffer)] = buffer
    return larger


def rejected_size(size: int, limit: str) -> str:
    """Returns why a frame of that size is not taken; `limit` names the limit that it passes.

    The first bytes of a TLS handshake, read as a size, have 16 03 in front, whatever the version.
    """
    if size >> 16 == 0x1603:
        return "it sends TLS, but this listener does not use TLS (is the client's security.protocol SSL?)"
    return f"a frame of {size} bytes; {limit}"
