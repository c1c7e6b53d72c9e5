"""A search for an order of a register's operations in which each one has the effect that its client saw.

It is that of Wing and Gong with Lowe's memory of positions that failed, for machines without Go; Porcupine is the judge
(`registers.py`). An operation with an unknown outcome may take effect at any later time, or never.
"""

from __future__ import annotations

from collections.abc import Sequence

from .operation import INFO, OK, READ, RISE, Operation

State = int | str | None


def is_linearizable(operations: Sequence[Operation]) -> bool:
    certain = sum(1 << at for at, operation in enumerate(operations) if operation.type == OK)
    tried: set[tuple[int, State]] = set()
    waiting: list[tuple[int, State]] = [(0, None)]
    while waiting:
        done, state = waiting.pop()
        if done & certain == certain:
            return True
        if (done, state) in tried:
            continue
        tried.add((done, state))
        left = [at for at in range(len(operations)) if not done >> at & 1]
        # An operation may be next if none of those left completed before it was invoked.
        end = min((operations[at].completed for at in left if operations[at].type == OK), default=0)
        for at in left:
            operation = operations[at]
            if operation.invoked <= end:
                accepted, after = step(state, operation)
                if accepted:
                    waiting.append((done | 1 << at, after))
    return False


def step(state: State, operation: Operation) -> tuple[bool, State]:
    """Returns whether the operation fits the state, and the state after it."""
    if operation.f == READ:
        return operation.type == INFO or operation.value == state, state
    if operation.f == RISE:
        if operation.value is None:
            return True, state
        return state is None or operation.value > state, operation.value
    return True, operation.value
