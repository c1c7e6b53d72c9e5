"""Ends of logs at a broker, of all partitions of some topics in two requests, so that a wait costs the broker little."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing
from types import TracebackType

from odradek.admin.errors import ResponseError
from odradek.admin.log_offsets import list_offsets
from odradek.protocol.log_places import LATEST

from compat_tests.mirror.mirrored_logs import admin_of

Places = dict[tuple[str, int], int]

_POLL_S = 0.1


class Ends:
    """Reads ends at a broker; to be closed."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = admin_of(bootstrap)

    def of(self, places: Iterable[tuple[str, int]]) -> Places:
        """Empty while one of the partitions is not there."""
        try:
            return {
                place: found.offset for place, found in list_offsets(self._admin, dict.fromkeys(places, LATEST)).items()
            }
        except ResponseError:
            return {}

    def wait(self, wanted: Places, most_s: float) -> None:
        """Raises TimeoutError."""
        deadline = time.monotonic() + most_s
        while self.of(wanted) != wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(wanted)} partitions are not mirrored in {most_s:g} s")
            time.sleep(_POLL_S)

    def close(self) -> None:
        self._admin.close()

    def __enter__(self) -> Ends:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def ends_at(bootstrap: str, topics: Iterable[str], partitions: int) -> Places:
    """The ends of topics with so many partitions each."""
    with closing(Ends(bootstrap)) as ends:
        return ends.of([(topic, index) for topic in topics for index in range(partitions)])
