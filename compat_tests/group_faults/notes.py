"""The notes of a member: a line of JSON for each step, with the time on the clock that all processes share.

    ["has", time, [partition, ...]]                      it was given these, beside what it had
    ["gives", time, [partition, ...]]                    it gives these back
    ["loses", time, [partition, ...]]                    it was told that these are not its own any more
    ["handled", time, value]                             before it commits that it has
    ["commits", began, time, [partition, ...], error]    `error`: null, or what the broker said, or the client
    ["refused", time, words]                             the client has given up: it takes no further part
    ["left", time]                                       in good order

A process that is killed leaves the lines that were whole.
"""

from __future__ import annotations

import json
import sys
from typing import Any

HAS, GIVES, LOSES, HANDLED, COMMITS, REJECTED, LEFT = "has", "gives", "loses", "handled", "commits", "refused", "left"

#: Members look for SIGTERM, and for what to commit, so often.
POLL_S = 0.05
COMMIT_EVERY_S = 0.3


def note(*words: Any) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()
