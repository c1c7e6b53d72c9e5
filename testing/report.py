"""The report of a failing test: what its brokers hold, and the last requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .groups_seen import shard_states, waiting
from .topics_seen import leaders

if TYPE_CHECKING:
    from .broker_run import EmbeddedRun
    from .embedded import Embedded

#: Lines of one section.
MOST_LINES = 30


def sections(embedded: Embedded) -> list[tuple[str, str]]:
    """Returns titles and texts; empty ones are left out."""
    run = embedded._here()
    found = [
        ("topics", embedded._look(lambda: _topics(run))),
        ("groups", embedded._look(lambda: _groups(run))),
        ("faults", [f"{fault}; struck {fault.count}" for fault in embedded.faults]),
        ("last requests", embedded.requests.lines(MOST_LINES)),
    ]
    return [(f"odradek {title}", "\n".join(_cut(lines))) for title, lines in found if lines]


def _cut(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more"]


def _topics(run: EmbeddedRun) -> list[str]:
    names = {
        topic.name for server in run.servers.values() for topic in server.node.metadata.image.topics.by_id.values()
    }
    lines = []
    for name in sorted(names):
        parts = [f"{one.index}: {one.log.log_start_offset}..{one.role.high_watermark}" for one in leaders(run, name)]
        lines.append(f"{name}  {', '.join(parts[:MOST_LINES])}")
    return [line for line in lines if not line.startswith("__")]


def _groups(run: EmbeddedRun) -> list[str]:
    lines = []
    for one in shard_states(run):
        for group_id, group in one.groups.items():
            members, lags = getattr(group, "members", ()), waiting(run, group_id)
            shown = ", ".join(f"{topic}-{index}: {lag}" for (topic, index), lag in lags.items())
            lines.append(f"{group_id}  {group.state.value}, {len(members)} members, lag {shown or 'unknown'}")
    return sorted(lines)
