"""The progress of a command: a bar on standard error, when that is a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

#: Fewer steps need no bar.
_FEWEST = 2


class Progress:
    """`with Progress("creating topics", total) as progress: progress.advance()`. `total` None: not known. `is_bytes`: the
    bar shows sizes, as of a file that is read.
    """

    def __init__(self, words: str, total: int | None, *, shown: bool | None = None, is_bytes: bool = False) -> None:
        is_long = total is None or total >= _FEWEST
        self._is_shown = (sys.stderr.isatty() if shown is None else shown) and is_long
        self._words = words
        self._total = total
        self._is_bytes = is_bytes
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Progress:
        if self._is_shown:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            done = DownloadColumn() if self._is_bytes else MofNCompleteColumn()
            columns = (TextColumn("{task.description}"), BarColumn(), done, TimeElapsedColumn())
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self._words, total=self._total)
        return self

    def advance(self, count: int = 1) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, count)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
