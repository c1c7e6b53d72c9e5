"""Fencing of group members: no commit of a generation takes effect after a later generation has begun.

A `join` that completed proves its generation. A commit that was invoked after that, with an earlier generation, must fail.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .case import Case
from .index import Index
from .operation import COMMIT, JOIN, OK, Operation


def group_cases(index: Index) -> Iterator[Case]:
    joins: dict[str, list[Operation]] = defaultdict(list)
    for operation in index.history:
        if operation.f == JOIN and operation.type == OK:
            joins[operation.group].append(operation)
    for operation in index.history:
        if operation.f == COMMIT and operation.type == OK and operation.generation >= 0:
            before = [join for join in joins[operation.group] if join.completed < operation.invoked]
            newest = max(before, key=lambda join: join.generation, default=None)
            if newest is not None and newest.generation > operation.generation:
                text = f"{operation.group} took a commit of generation {operation.generation} in {newest.generation}"
                yield Case("fenced-commit", text, [newest, operation])
