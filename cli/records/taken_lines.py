"""Lines of the input that `produce` has taken, those of them without an acknowledgement, and where a later run resumes.

A later run sends again what has no acknowledgement, and nothing else, while its lines fit in a command (`Lines`). Otherwise
it begins at the first of them, and repeats lines that are written: the words say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .line_ranges import Lines, range_text, ranges_of

#: Ranges of lines that a message and a command line name.
_MOST_RANGES = 20


class Line(NamedTuple):
    """A line of one of the inputs, which are counted from 0."""

    source: int
    number: int


class TakenLines:
    """`names` has the inputs, in their order. `are_repeated`: lines come more than once, and no run resumes at any."""

    def __init__(self, names: Sequence[str], *, are_repeated: bool = False) -> None:
        self._names = names
        self._are_repeated = are_repeated
        #: Records that are written or on their way; without those of an aborted transaction.
        self.count = 0
        self.is_begun = False
        self._last: Line | None = None
        self._unacknowledged: list[Line] = []
        self._refused: list[Line] = []
        #: Whether the last transaction may be committed although it has no acknowledgement.
        self.is_commit_unknown = False
        self._committed: tuple[int, Line | None] = (0, None)

    def take(self, last: Line, count: int = 1) -> None:
        """Notes records that the producer has. Their lines end with `last`."""
        self.count += count
        self.is_begun = True
        self._last = last

    def fail(self, line: Line, *, is_refused: bool) -> None:
        """Notes a record without an acknowledgement; one that the broker refused is not written."""
        (self._refused if is_refused else self._unacknowledged).append(line)

    def commit(self) -> None:
        """Notes that the transaction of all lines so far is committed."""
        self._committed = self.count, self._last
        self.is_commit_unknown = False

    def drop_uncommitted(self) -> None:
        """Notes that what was taken since the last commit is not written."""
        if not self.is_commit_unknown:
            self.count, self._last = self._committed
        self._unacknowledged.clear()
        self._refused.clear()

    def words(self, *, is_whole: bool) -> str:
        """Returns what is written, and where to resume. `is_whole`: the input has no further line."""
        if self.is_commit_unknown:
            committed, last = self._committed
            doubtful = f", and {self.count - committed} of the last transaction may or may not be"
            return f"{committed} written{doubtful}{self._resume(self._after(last))}"
        missing = [*self._unacknowledged, *self._refused]
        written = f"{self.count - len(missing)} written"
        if not missing:
            return f"{written}, all of the input" if is_whole else written + self._resume(self._after(self._last))
        assert self._last is not None
        source = self._last.source
        ranges = ranges_of(line.number for line in missing)
        if self._are_repeated or any(line.source != source for line in missing) or len(ranges) > _MOST_RANGES:
            first = min(missing)
            resume = self._resume((first.source, Lines(first.number)))
            return (
                f"{written}{self._missing_words(with_lines=False)}{resume}{', which repeats lines' if resume else ''}"
            )
        return f"{written}{self._missing_words(with_lines=True)}{self._resume(self._with_rest(ranges))}"

    def _missing_words(self, *, with_lines: bool) -> str:
        words = ""
        for lines, state in ((self._refused, "refused"), (self._unacknowledged, "may or may not be written")):
            if lines:
                named = ",".join(map(range_text, ranges_of(line.number for line in lines)))
                words += f", {len(lines)} {state}"
                words += f" ({'line' if len(lines) == 1 else 'lines'} {named})" if with_lines else ""
        return words

    def _after(self, last: Line | None) -> tuple[int, Lines]:
        return (0, Lines()) if last is None else (last.source, Lines(last.number + 1))

    def _with_rest(self, ranges: list[tuple[int, int]]) -> tuple[int, Lines]:
        """The ranges and what was not taken; the last range is part of this where nothing is between."""
        assert self._last is not None
        if ranges[-1][1] == self._last.number:
            return self._last.source, Lines(ranges[-1][0], tuple(ranges[:-1]))
        return self._last.source, Lines(self._last.number + 1, tuple(ranges))

    def _resume(self, place: tuple[int, Lines]) -> str:
        if self._are_repeated:
            return ""
        source, lines = place
        where = f" of {self._names[source]}" if len(self._names) > 1 else ""
        return f"; resume at line {lines}{where} (--from-line {lines})"
