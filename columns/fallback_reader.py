"""Reads a split from files, and from the brokers what the files no longer have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from .cluster import Cluster
from .errors import Unread
from .fetch_reader import FetchReader
from .file_reader import FileReader
from .split import Split
from .split_reader import ReadOptions


class FallbackReader:
    """Reads a split from files, and from the brokers what the files no longer have."""

    def __init__(self, split: Split, options: ReadOptions, cluster: Cluster | None = None) -> None:
        self.split = split
        self._options = options
        self._cluster = cluster
        self._readers: list[FileReader | FetchReader] = [FileReader(split, options, stops_when_gone=True)]

    @property
    def next_offset(self) -> int:
        return self._readers[-1].next_offset

    @property
    def unread(self) -> list[Unread]:
        return [unread for reader in self._readers for unread in reader.unread]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        yield from self._readers[0]
        rest = self._rest()
        if rest is not None:
            yield from rest

    def count(self) -> int:
        found = self._readers[0].count()
        rest = self._rest()
        return found if rest is None else found + rest.count()

    def _rest(self) -> FetchReader | None:
        if self.next_offset >= self.split.next_offset:
            return None
        rest = replace(self.split.part(self.next_offset, self.split.next_offset), path=None)
        self._readers.append(made := FetchReader(rest, self._options, self._cluster))
        return made
