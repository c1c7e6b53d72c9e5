"""Bytes of a frame or a file, in memory."""

from __future__ import annotations

Buffer = bytes | bytearray | memoryview
