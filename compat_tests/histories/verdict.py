"""The judgement of a history: every check in turn, the anomalies that they found, and the worst realtime lag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from .case import Case
from .chain_rules import chain_cases
from .cycles import cycle_cases
from .group_rules import group_cases
from .index import Index
from .lag import Lag, worst_lag
from .operation import Operation
from .order_anomalies import order_cases
from .record_anomalies import CHECKS as RECORD_CHECKS
from .registers import register_cases
from .share_rules import share_cases

CHECKS: tuple[Callable[[Index], Iterator[Case]], ...] = (
    *RECORD_CHECKS,
    order_cases,
    cycle_cases,
    group_cases,
    chain_cases,
    share_cases,
    register_cases,
)
#: Every name that a check may give.
ANOMALIES = (
    "lost-write", "duplicate", "inconsistent-offsets", "unseen", "unwritten", "G1a", "precommitted-read",
    "poll-skip", "nonmonotonic-poll", "nonmonotonic-send",
    "int-poll-skip", "int-nonmonotonic-poll", "int-send-skip", "int-nonmonotonic-send",
    "G0", "G0-process", "G0-realtime", "G1c", "G1c-process", "G1c-realtime",
    "chain-duplicate", "chain-lost", "fenced-commit", "nonlinearizable",
    "share-accepted-again", "share-count-not-rising", "share-over-limit", "share-delivered-while-locked", "share-lost",
)  # fmt: skip
_MOST_SHOWN = 8


@dataclass(frozen=True)
class Verdict:
    operations: int
    outcomes: Counter[str]
    cases: Sequence[Case]
    lag: Lag | None

    @property
    def violations(self) -> list[Case]:
        """Returns the cases that break a promise of Kafka."""
        return [case for case in self.cases if not case.is_allowed]

    @property
    def found(self) -> set[str]:
        return {case.anomaly for case in self.violations}

    @property
    def allowed(self) -> set[str]:
        return {case.anomaly for case in self.cases if case.is_allowed}

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.outcomes.items()))
        lines = [f"{self.operations} operations: {kinds}", f"worst realtime lag: {self.lag or 'no poll'}"]
        allowed = Counter(case.anomaly for case in self.cases if case.is_allowed)
        if allowed:
            lines.append("allowed: " + ", ".join(f"{name} {count}" for name, count in sorted(allowed.items())))
        found = Counter(case.anomaly for case in self.violations)
        lines.append("anomalies: " + (", ".join(f"{name} {count}" for name, count in sorted(found.items())) or "none"))
        for name in sorted(found):
            lines += [f"  {case}" for case in self.violations if case.anomaly == name][:_MOST_SHOWN]
        return "\n".join(lines)


def judge(history: Iterable[Operation]) -> Verdict:
    operations = sorted(history, key=lambda operation: operation.invoked)
    index = Index(operations)
    cases = [case for check in CHECKS for case in check(index)]
    assert {case.anomaly for case in cases} <= set(ANOMALIES)
    outcomes = Counter(f"{operation.f} {operation.type}" for operation in operations)
    return Verdict(len(operations), outcomes, cases, worst_lag(index))
