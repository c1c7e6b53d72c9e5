"""The audit log of the console, logger `odradek.audit`: a JSON line for each change, login and refused request."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from ...client.properties import HIDDEN, is_secret

log = logging.getLogger("odradek.audit")
_MOST_CHARACTERS = 200
#: Fields of forms that are no part of a change.
_LEFT_OUT = ("csrf", "confirm")
#: Contents of records stay out of the log, and so do passwords.
_CONTENTS = ("value", "key", "headers")


def begin(file: Path | None) -> None:
    """Writes the audit log to a file, or to standard error."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if file is not None:
        handler = logging.FileHandler(file, encoding="utf-8", delay=False)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False


def _shown(action: str, name: str, value: str) -> str:
    if is_secret(name) or (name in _CONTENTS and action.startswith("record.")):
        return f"{HIDDEN} ({len(value)} characters)"
    return value[:_MOST_CHARACTERS]


def note(
    user: str, address: str, action: str, outcome: str, details: Mapping[str, str], cluster: str | None = None
) -> None:
    """`outcome` is "done", or why nothing was done. `cluster`: the one that was to change; None for logins."""
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "source": "console",
        "user": user,
        "address": address,
        **({} if cluster is None else {"cluster": cluster}),
        "action": action,
        "outcome": outcome[:_MOST_CHARACTERS],
        "details": {
            name: _shown(action, name, value) for name, value in details.items() if value and name not in _LEFT_OUT
        },
    }
    log.info(json.dumps(line, ensure_ascii=True))
