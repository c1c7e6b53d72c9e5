"""The audit log, logger `odradek.audit`: refused authentications and denials, and administrative changes that succeeded.

A line is the text of Kafka's authorizer logger, or a JSON object (`odradek.audit.format`). Lines that repeat are counted:
the first one is written at once, then one a minute with the number of repetitions. A peer's text is bounded and escaped.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import NamedTuple

from ...client.shown_text import shown
from ..runtime.clock import Clock

log = logging.getLogger("odradek.audit")

#: The time from the first line to the count, and between counts.
PERIOD_S = 60.0
#: Events that are counted separately in a period; a further one is counted with the others of its kind. Each takes some 500
#: bytes.
MOST_EVENTS = 4096
_OTHERS = "other"


class AuditEvent(NamedTuple):
    """`kind`: the kind of event, in a few words. `text`: the line. `fields`: the same for JSON."""

    kind: str
    text: str
    fields: tuple[tuple[str, str | int], ...]


class AuditLog:
    """The audit log of a node. `as_json`: writes JSON objects."""

    def __init__(self, clock: Clock, *, as_json: bool = False) -> None:
        self._clock = clock
        self._as_json = as_json
        #: The repetitions of each event of this period, with their level.
        self._seen: dict[AuditEvent, int] = {}
        self._levels: dict[AuditEvent, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    #: Returns whether events of a level are written.
    writes = staticmethod(log.isEnabledFor)

    def write(self, level: int, kind: str, text: str, fields: Mapping[str, str | int]) -> None:
        """Writes an event, or counts it."""
        if not log.isEnabledFor(level):
            return
        reported = tuple((name, value if isinstance(value, int) else shown(value)) for name, value in fields.items())
        event = AuditEvent(kind, shown(text, 4 * 256), reported)
        if event not in self._seen and len(self._seen) >= MOST_EVENTS:
            event = AuditEvent(kind, f"{_OTHERS} events of {kind}", ())
        if event in self._seen:
            self._seen[event] += 1
            return
        self._seen[event], self._levels[event] = 0, level
        self._emit(event, 0)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._end_period)

    def failed_authentication(self, client_host: str, listener: str, mechanism: str, reason: str) -> None:
        """Writes a client that failed to authenticate. `mechanism`: that of SASL, "TLS", or "" if still unknown."""
        if not self.writes(logging.INFO):
            return
        host = client_host.lstrip("/")
        text = f"Failed authentication from host = {host} on listener = {listener}"
        text += f" with mechanism = {mechanism}: {reason}" if mechanism else f": {reason}"
        fields = {"host": host, "listener": listener, "mechanism": mechanism, "reason": reason}
        self.write(logging.INFO, "authentication", text, fields)

    def stop(self) -> None:
        """Writes the counts so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._emit_counts()
        self._seen.clear()
        self._levels.clear()

    def _end_period(self) -> None:
        """Starts a new period. Repeated events continue to be counted."""
        self._timer = None
        self._emit_counts()
        self._seen = {event: 0 for event, count in self._seen.items() if count}
        self._levels = {event: self._levels[event] for event in self._seen}
        if self._seen:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._end_period)

    def _emit_counts(self) -> None:
        for event, count in self._seen.items():
            if count:
                self._emit(event, count)

    def _emit(self, event: AuditEvent, repeated: int) -> None:
        if self._as_json:
            line = {"time_ms": self._clock.now_ms(), "event": event.kind, **dict(event.fields)}
            if repeated:
                line["repeated"] = repeated
            text = json.dumps(line)
        else:
            text = f"{repeated} more like: {event.text}" if repeated else event.text
        log.log(self._levels[event], "%s", text)
