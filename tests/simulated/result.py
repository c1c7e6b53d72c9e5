"""The result of a seed, a line of a file of results, and the table of all seeds of a file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.simulated.round import Outcome

#: The anomaly that a history without its end has: its last sends are not written down.
_CUT_SHORT = "unwritten"


@dataclass(frozen=True)
class Result:
    """Outcome of a seed. `seconds`: of simulated time. `events`: callbacks of nodes, each followed by checks."""

    seed: int
    commit: str
    seconds: float = 0.0
    cpu_s: float = 0.0
    operations: int = 0
    events: int = 0
    deliveries: int = 0
    #: Changes of directories that power losses took back.
    taken_back: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    points: dict[str, int] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)
    #: Operations by kind and outcome, such as `send ok`.
    outcomes: dict[str, int] = field(default_factory=dict)
    anomalies: dict[str, int] = field(default_factory=dict)
    broken: str = ""
    idle: list[str] = field(default_factory=list)
    hash: int = 0

    @property
    def is_good(self) -> bool:
        return not self.anomalies and not self.broken

    def to_line(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":")) + "\n"


def result_of(outcome: Outcome, commit: str, cpu_s: float) -> Result:
    verdict = outcome.verdict
    assert verdict is not None
    return Result(
        outcome.plan.seed,
        commit,
        round(outcome.seconds, 1),
        round(cpu_s, 1),
        verdict.operations,
        outcome.events,
        outcome.deliveries,
        outcome.taken_back,
        dict(outcome.faults),
        dict(outcome.points),
        dict(outcome.changes),
        dict(verdict.outcomes),
        dict(
            Counter(case.anomaly for case in verdict.violations if not (outcome.broken and case.anomaly == _CUT_SHORT))
        ),
        outcome.broken[:2000],
        list(outcome.idle),
        outcome.hash,
    )


def read(path: Path, commit: str) -> list[Result]:
    """Returns the results of a commit. Leaves out a last line that a kill cut short."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    found = [Result(**json.loads(line)) for line in lines if line.endswith("\n")]
    return [one for one in found if one.commit == commit]


def table(results: Sequence[Result]) -> str:
    """Returns a table in Markdown."""
    hours = sum(one.seconds for one in results) / 3600
    operations = sum(one.operations for one in results)
    bad = [one for one in results if not one.is_good]
    rows = [
        ("seeds", f"{len(results)}: {_ranges([one.seed for one in results])}"),
        ("simulated hours", f"{hours:,.1f}"),
        ("operations", _rate(operations, hours)),
        ("deliveries of requests and responses", _rate(sum(one.deliveries for one in results), hours)),
        ("events of brokers", _rate(sum(one.events for one in results), hours)),
        ("CPU time", f"{_rate(round(sum(one.cpu_s for one in results)), hours)} (s)"),
        ("faults", _rate(sum(sum(one.faults.values()) for one in results), hours)),
        ("faults by kind", _counts(one.faults for one in results)),
        ("changes of directories that power losses took back", f"{sum(one.taken_back for one in results):,}"),
        ("changes of the cluster", _counts(one.changes for one in results)),
        ("buggify points", _counts(one.points for one in results)),
        (
            "bad seeds",
            ", ".join(f"{one.seed} ({', '.join(one.anomalies) or one.broken[:80]})" for one in bad) or "none",
        ),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)])


def _rate(count: int, hours: float) -> str:
    return f"{count:,}; {count / hours if hours else 0:,.0f} an hour"


def _counts(found: Iterable[dict[str, int]]) -> str:
    total: Counter[str] = Counter()
    for one in found:
        total.update(one)
    return ", ".join(f"{name} {count:,}" for name, count in sorted(total.items())) or "none"


def _ranges(seeds: Iterable[int]) -> str:
    """Returns `1 to 3, 7` for 1, 2, 3 and 7."""
    runs: list[list[int]] = []
    for seed in sorted(seeds):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
