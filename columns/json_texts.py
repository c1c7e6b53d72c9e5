"""Values of bytes as texts of JSON, without the frame of a schema registry."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

#: Without an end, Arrow 26 fails in a slice of bytes.
_INT32_MAX = (1 << 31) - 1
#: A zero and the id of a schema.
_FRAME_BYTES = 5


def texts_of(values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Values as text, without a registry's frame; null, and a reason, where they are not UTF-8."""
    if pa.types.is_string(values.type):
        return values, {}
    if pc.any(pc.starts_with(values, "\0")).as_py():
        has_frame = pc.fill_null(pc.starts_with(values, "\0"), False)
        values = pc.if_else(has_frame, pc.binary_slice(values, _FRAME_BYTES, _INT32_MAX), values)
    try:
        return values.cast(pa.string()), {}
    except pa.ArrowInvalid:
        found, bad = [], {}
        for row, value in enumerate(values.to_pylist()):
            try:
                found.append(None if value is None else value.decode())
            except UnicodeDecodeError as error:
                found.append(None)
                bad[row] = f"it is not UTF-8: {error.reason} at byte {error.start}"
        return pa.array(found, pa.string()), bad
