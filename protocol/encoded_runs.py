"""Elements of arrays that are encoded already, for encoders in steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class Encoded:
    """An element of an array that is encoded already, for an encoder in steps. `content` is for the message's version."""

    __slots__ = ("content",)

    def __init__(self, content: bytes) -> None:
        self.content = content


class EncodedRuns:
    """The elements of an array, for an encoder in steps. Those that are encoded already may be joined to runs of several."""

    __slots__ = ("_count", "_parts")

    def __init__(self) -> None:
        self._count = 0
        #: Elements, and runs of them.
        self._parts: list[object] = []

    def add(self, content: bytes, count: int) -> None:
        """Adds `count` encoded elements, one after the other."""
        self._parts.append(Encoded(content))
        self._count += count

    def extend(self, elements: Sequence[object]) -> None:
        """Adds elements that are not encoded yet."""
        self._parts += elements
        self._count += len(elements)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[object]:
        return iter(self._parts)

    def __delitem__(self, some: slice) -> None:
        """Frees elements and runs, as of a list; the rest is only good for being freed."""
        del self._parts[some]
        self._count = len(self._parts)
