"""Workers without an effect: a client that never works leaves a history without an anomaly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from .operation import ABORTED, FAIL, OK, POLL, TXN, Operation
from .workloads import Worker


def idle_workers(
    workers: Iterable[Worker], worker_of: Mapping[int, str], history: Iterable[Operation]
) -> Sequence[str]:
    """Returns each worker that has no operation with an effect of one of its kinds. `worker_of`: process -> name."""
    effective: dict[str, set[str]] = defaultdict(set)
    for operation in history:
        if _has_effect(operation):
            effective[worker_of.get(operation.process, "")].add(operation.f)
    missing = [
        (worker.name, [kind for kind in worker.kinds if kind not in effective[worker.name]]) for worker in workers
    ]
    return [f"{name}: no {', no '.join(kinds)}" for name, kinds in missing if kinds]


def _has_effect(operation: Operation) -> bool:
    if operation.f == TXN and operation.type == FAIL:
        return operation.error == ABORTED
    return operation.type == OK and (operation.f != POLL or bool(operation.polls))
