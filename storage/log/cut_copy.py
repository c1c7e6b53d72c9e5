"""A copy of what stays of a segment that is to be cut, which takes the place of its file.

`sendfile` gives a socket the pages of a file, and a cut fills the rest of its last page with zeros: a response on its way
would have them. With a copy the former file stays as it is for its readers. A copy takes the disk's time, so it is for
cuts that are rare, and for segments that were read.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from ..files.copies import copy_part
from ..files.writes import unlink_if_exists

if TYPE_CHECKING:
    from ..segments.segment import Segment


class CutCopy(NamedTuple):
    """The first `position` bytes of a segment, in a file beside its own, which a start removes."""

    segment: Segment
    position: int

    @property
    def path(self) -> str:
        return f"{self.segment.path}.tmp"

    def write(self) -> bool:
        """Writes the file; any thread may call it. Returns False where there is no room, or no such file any more."""
        self.discard()
        try:
            is_whole = copy_part(self.segment.path, 0, self.position, self.path) == self.position
        except OSError:
            is_whole = False
        if not is_whole:
            self.discard()
        return is_whole

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            unlink_if_exists(self.path)
