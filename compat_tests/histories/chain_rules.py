"""Chains: a transaction reads records of one topic and sends a copy of each to another, with the offsets of its group.

A copy names its source behind a `<`, as in `v9<v4`. Each source has one committed copy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .case import Case
from .index import Index
from .operation import OK
from .record_anomalies import is_drained

_OF = "<"


def chain_cases(index: Index) -> Iterator[Case]:
    copies: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, seen in list(index.seen.items()):
        for value in seen:
            if _OF in value:
                copies[key, value.rpartition(_OF)[2]].append(value)
    for (key, source), values in copies.items():
        if len(values) > 1:
            writers = [index.writer_of[key, value] for value in values if (key, value) in index.writer_of]
            yield Case("chain-duplicate", f"{source} has the copies {sorted(values)} in {key}", writers)
    if is_drained(index) and copies:
        yield from _lost(index, {key for key, _ in copies}, {source for _, source in copies})


def _lost(index: Index, targets: set[str], copied: set[str]) -> Iterator[Case]:
    """Yields records of the chain's source without a copy. A source is a key of which some record has one."""
    sources = {key for key, value in index.writer_of if value in copied and key not in targets}
    for (key, value), writer in index.writer_of.items():
        if key in sources and writer.type == OK and value not in copied:
            yield Case("chain-lost", f"{value} of {key} has no committed copy", [writer])
