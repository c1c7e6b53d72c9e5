"""The reader of a split: of files, of brokers, of both, or of a remote store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from .cluster import Cluster, connected
from .errors import InvalidScan
from .fallback_reader import FallbackReader
from .fetch_reader import FetchReader
from .file_reader import FileReader
from .split import Split
from .split_reader import ReadOptions

if TYPE_CHECKING:
    from .remote_reader import RemoteReader

Reader: TypeAlias = "FileReader | FetchReader | FallbackReader | RemoteReader"


def _log_start(cluster: Cluster | None) -> Callable[[Split], int]:
    """Asks a cluster, over a connection in use or a new one, where the log of a split starts."""

    def asked(split: Split) -> int:
        if cluster is not None:
            return cluster.log_start(split)
        assert split.client is not None
        with connected(split.client) as made:
            return made.log_start(split)

    return asked


def open_split(split: Split, options: ReadOptions, cluster: Cluster | None = None) -> Reader:
    """The reader of a split, which opens nothing before it is iterated. `cluster`: a connection in use."""
    if split.remote is not None:
        from .remote_reader import RemoteReader

        return RemoteReader(split, options, _log_start(cluster) if split.client is not None else None)
    if split.path is None:
        if split.client is None:
            raise InvalidScan("a split needs a path or a client")
        return FetchReader(split, options, cluster)
    return FileReader(split, options) if split.client is None else FallbackReader(split, options, cluster)


def read_split(
    split: Split, columns: Sequence[str], *, on_unreadable: str = "raise", check_crcs: bool = True
) -> Reader:
    """An iterable of the split's RecordBatches with these columns of SCHEMA, in this order.

    Its `next_offset` is the offset up to which the split is read, and `unread` lists the offsets that could not be.
    """
    return open_split(split, ReadOptions(columns, on_unreadable == "skip", check_crcs))
