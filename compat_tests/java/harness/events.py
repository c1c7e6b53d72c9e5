"""Events that Java's clients print."""

from __future__ import annotations

import json


def events(out: str, name: str) -> list[dict[str, object]]:
    """Returns the lines of a verifiable client for one kind of event."""
    reported = (json.loads(line) for line in out.splitlines() if line.startswith("{"))
    return [one for one in reported if one.get("name") == name]
