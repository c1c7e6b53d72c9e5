"""PyIceberg's projection of columns, with lists and maps of structs that are null.

PyIceberg projects the columns of each file that it writes or reads. It makes lists of structs anew from their offsets, and
maps with struct values too, without their nulls: an empty list was written for a missing one
(https://github.com/apache/iceberg-python/issues/3833), in each release of the allowed range. Its functions take the
projection from their module, so this one takes its place there.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyiceberg.io.pyarrow as library
from pyiceberg.types import ListType, MapType


class NullKeepingProjection(library.ArrowProjectionVisitor):  # type: ignore[misc]
    """The projection, with the nulls of lists and maps."""

    def list(self, list_type: ListType, list_array: pa.Array | None, value_array: pa.Array | None) -> pa.Array | None:
        return _with_nulls_of(list_array, super().list(list_type, list_array, value_array))

    def map(
        self, map_type: MapType, map_array: pa.Array | None, key_result: pa.Array | None, value_result: pa.Array | None
    ) -> pa.Array | None:
        return _with_nulls_of(map_array, super().map(map_type, map_array, key_result, value_result))


def install() -> None:
    """Has PyIceberg keep nulls in this process."""
    library.ArrowProjectionVisitor = NullKeepingProjection


def _with_nulls_of(array: pa.Array | None, projected: pa.Array | None) -> pa.Array | None:
    if array is None or projected is None or projected.null_count == array.null_count:
        return projected
    return projected.take(pa.array(np.arange(len(array)), mask=array.is_null().to_numpy(False)))
