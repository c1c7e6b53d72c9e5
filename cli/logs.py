"""The log of `odradek start`, on standard error."""

from __future__ import annotations

import logging
import sys

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
#: Characters of a message; the longest of our own name a few paths and topics.
MOST_MESSAGE_CHARACTERS = 4096


class OneLineFormatter(logging.Formatter):
    """Keeps each message on one line and within a size, whatever text of a peer is in it. A traceback follows as it is."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        from ..server.runtime.peer_text import shown

        record.message = shown(record.message, MOST_MESSAGE_CHARACTERS)
        return super().formatMessage(record)


def log_to_standard_error(*, verbose: bool) -> None:
    """Warnings and errors; with `verbose` also what the broker does."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter(_FORMAT))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])
