"""Whether an object is excluded from garbage collections, as `gc.freeze` does."""

from __future__ import annotations

import gc


def is_excluded(made: object) -> bool:
    """Whether collections leave out `made`: `gc.get_objects` does, too.

    A count of frozen objects does not show it: the count falls when any other frozen object is released.
    """
    return all(tracked is not made for tracked in gc.get_objects())
