"""The log of `odradek start` on standard error: lines as text or JSON, and a limit on repeated lines.

- `OneLineFormatter`, `JsonFormatter`: the lines.
- `LimitedHandler`: the limit. `log_to_standard_error` sets up all this.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterable
from typing import TextIO

from . import messages
from .log_levels import LoggerLevel

FORMATS = ("text", "json")

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

#: Characters of a message; the longest of our own name a few paths and topics.
MOST_MESSAGE_CHARACTERS = 4096
#: A line that repeats is written so often in a period, and then counted: a fault that never ends must not fill the disk.
MOST_REPETITIONS = 5
PERIOD_S = 60.0
#: Lines that are counted separately in a period; each takes some 200 bytes.
MOST_LINES = 1024


class OneLineFormatter(logging.Formatter):
    """Keeps each message on one line and within a size, whatever text of a peer is in it. A traceback follows as it is."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        from ..client.shown_text import shown as bounded

        record.message = bounded(record.message, MOST_MESSAGE_CHARACTERS)
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """A JSON object on one line. `fields` of a record stand beside the message; a traceback is a text."""

    def format(self, record: logging.LogRecord) -> str:
        from ..client.shown_text import shown as bounded

        line: dict[str, object] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": bounded(record.getMessage(), MOST_MESSAGE_CHARACTERS),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _Seen:
    """A line of this period: how often it came, and when the period is over."""

    __slots__ = ("count", "over_s", "record")

    def __init__(self, record: logging.LogRecord, over_s: float) -> None:
        self.record = record
        self.over_s = over_s
        self.count = 0

    @property
    def suppressed(self) -> int:
        return max(0, self.count - MOST_REPETITIONS)


class LimitedHandler(logging.StreamHandler[TextIO]):
    """Writes equal lines `MOST_REPETITIONS` times in a period. The first line after it is followed by the number of the
    others; so is the last line of the process.
    """

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__(stream)
        #: The oldest first.
        self._seen: dict[tuple[str, int, str], _Seen] = {}

    def emit(self, record: logging.LogRecord) -> None:
        now_s = time.monotonic()
        self._end_periods(now_s)
        key = (record.name, record.levelno, record.getMessage())
        seen = self._seen.get(key)
        if seen is None:
            if len(self._seen) >= MOST_LINES:
                self._end(next(iter(self._seen)))
            seen = self._seen[key] = _Seen(record, now_s + PERIOD_S)
        seen.count += 1
        if not seen.suppressed:
            super().emit(record)

    def close(self) -> None:
        for key in list(self._seen):
            self._end(key)
        super().close()

    def _end_periods(self, now_s: float) -> None:
        while self._seen:
            key, seen = next(iter(self._seen.items()))
            if seen.over_s > now_s:
                return
            self._end(key)

    def _end(self, key: tuple[str, int, str]) -> None:
        seen = self._seen.pop(key)
        if seen.suppressed:
            words = f"{seen.suppressed} more like: {seen.record.getMessage()}"
            super().emit(logging.LogRecord(key[0], key[1], "", 0, words, None, None))


def log_to_standard_error(*, verbose: bool, levels: Iterable[LoggerLevel] = (), form: str = "text") -> None:
    """Warnings and errors; with `verbose` also what the broker does; `levels` count more. The last one of a logger holds."""
    handler = LimitedHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else OneLineFormatter(_FORMAT))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])
    for logger, level in levels:
        logging.getLogger(logger or None).setLevel(level)
    if form == "json":
        messages.write_messages_with(_as_log_line)


def _as_log_line(text: str) -> None:
    """Writes a message of a command among lines of JSON."""
    record = logging.LogRecord("odradek", logging.ERROR, "", 0, "%s", (text,), None)
    print(JsonFormatter().format(record), file=sys.stderr)
