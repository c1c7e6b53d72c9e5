"""The notes of a member: a line of JSON for each step, with the time of a clock that all processes share.

    ["has", time, [partition, ...]]                      the member was assigned these, beside what it had
    ["gives", time, [partition, ...]]                    it gives these back
    ["loses", time, [partition, ...]]                    the client reported these as lost
    ["handled", time, value]                             before the commit of this record
    ["commits", began, time, [partition, ...], error]    `error`: null, or the error of the broker or the client
    ["refused", time, words]                             the client has failed fatally: it takes no further part
    ["left", time]                                       the member has closed its consumer

A killed process leaves its complete lines.
"""

from __future__ import annotations

import json
import sys
from typing import Any

HAS, GIVES, LOSES, HANDLED, COMMITS, REJECTED, LEFT = "has", "gives", "loses", "handled", "commits", "refused", "left"

#: Interval in which members look for SIGTERM, and for offsets to commit.
POLL_S = 0.05
COMMIT_EVERY_S = 0.3


def note(*words: Any) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()
