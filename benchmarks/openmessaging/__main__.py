"""Compares three nodes of Odradek with three of Apache Kafka by workloads of the OpenMessaging Benchmark:
`python -m benchmarks.openmessaging [--only REGEX] [--seconds N] [--rounds N] [--write PAGE]`.

Both clusters are up, with their default configuration, and take each row in turn. One worker process drives them, as
upstream's does: with Apache Kafka's own producers and consumers, the settings of upstream's drivers, three replicas and
acks=all. Rates are divided, each by the divisor that its row names. The files of workloads and drivers are those of this
package, or, with --upstream DIR, of a checkout of https://github.com/openmessaging/benchmark. `--row` takes any of them.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from ..brokers import APACHE_NAME, ODRADEK_NAME
from ..clusters import MeasuredCluster
from ..reporting import report
from ..reporting.result import Result
from . import page
from .figures import figures, results
from .rows import HERE, ROWS, Row, row
from .worker import Outcome, TurnFailed, Worker, turn_of
from .workload import WorkloadError

#: A JVM compiles the hot code of a broker meanwhile.
FIRST_WARM_UP_S = 20.0

#: Each row, and its turns by broker.
Outcomes = list[tuple[Row, dict[str, list[Outcome]]]]


def main() -> int:
    options = arguments()
    try:
        rows = chosen(options)
    except WorkloadError as error:
        print(error, file=sys.stderr)
        return 2
    outcomes: Outcomes = [(row, defaultdict(list)) for row in rows]
    failures: list[str] = []
    try:
        measure(outcomes, options, failures)
    finally:
        # After an interruption: the rows that both brokers have.
        measured = [result for row, by_broker in outcomes for result in results_of(row, by_broker)]
        report.show(measured, Console(width=170))
        if options.write and measured:
            page.write(measured, options.write)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="REGEX", default="", help="rows whose name has a match")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a turn, without its warm-up (default: 10)")
    parser.add_argument("--warm-up", type=float, default=5.0, help="seconds of each turn before that (default: 5)")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each broker in each row (default: 2)")
    parser.add_argument("--slower", type=float, default=1.0, help="divides all rates once more, for a slower machine")
    parser.add_argument("--upstream", type=Path, metavar="DIR", help="a checkout with workloads/ and driver-kafka/")
    parser.add_argument(
        "--row",
        nargs=3,
        action="append",
        metavar=("WORKLOAD", "DRIVER", "DIVISOR"),
        help="this row instead of the usual ones: names of files without .yaml, and the divisor of the rate",
    )
    parser.add_argument("--write", type=Path, metavar="PAGE", help="writes the table into openmessaging.md")
    options = parser.parse_args()
    if min(options.seconds, options.rounds, options.slower) <= 0 or options.warm_up < 0:
        parser.error("--seconds, --rounds and --slower must be above 0")
    return options


def chosen(options: argparse.Namespace) -> list[Row]:
    """Returns the rows to measure. Raises WorkloadError."""
    if options.upstream:
        workloads, drivers = options.upstream / "workloads", options.upstream / "driver-kafka"
    else:
        workloads, drivers = HERE / "workloads", HERE / "drivers"
    all_rows = [
        row(workloads / f"{workload}.yaml", drivers / f"{driver}.yaml", float(divisor) * options.slower)
        for workload, driver, divisor in options.row or ROWS
    ]
    rows = [row for row in all_rows if re.search(options.only, row.name)]
    if not rows:
        raise WorkloadError(f"no row matches {options.only!r}; the rows: " + "; ".join(row.name for row in all_rows))
    return rows


def measure(outcomes: Outcomes, options: argparse.Namespace, failures: list[str]) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        clusters = {
            name: stack.enter_context(MeasuredCluster(name, folder / name.split()[0]))
            for name in (ODRADEK_NAME, APACHE_NAME)
        }
        worker = stack.enter_context(Worker())
        row = outcomes[0][0]
        for name, cluster in clusters.items():
            print(f"{name}: warm-up", flush=True)
            first = turn_of(row.workload, row.driver, cluster.bootstrap, FIRST_WARM_UP_S, options.seconds)
            attempt(worker, first, cluster)
        for number in range(options.rounds):
            for row, by_broker in outcomes:
                for name, cluster in clusters.items():
                    turn = turn_of(row.workload, row.driver, cluster.bootstrap, options.warm_up, options.seconds)
                    outcome = attempt(worker, turn, cluster)
                    shown = str(outcome) if isinstance(outcome, TurnFailed) else line(row, outcome)
                    print(f"{number + 1}. {row.name}: {name}: {shown}", flush=True)
                    if isinstance(outcome, TurnFailed):
                        failures.append(f"{row.name}: {name}: {outcome}")
                    else:
                        by_broker[name].append(outcome)


def attempt(worker: Worker, turn: dict[str, object], cluster: MeasuredCluster) -> Outcome | TurnFailed:
    """Runs a turn. A broker that cannot do it in time does not end the other rows."""
    try:
        return worker.run(turn, cluster.cpu_s)
    except TurnFailed as failed:
        return failed


def line(row: Row, outcome: Outcome) -> str:
    return ", ".join(f"{kind.name} {value:.3g} {kind.unit}".rstrip() for kind, value in figures(row, [outcome]).items())


def results_of(row: Row, by_broker: dict[str, list[Outcome]]) -> list[Result]:
    """Returns the results of a row, none if a broker has no turn of it."""
    if len(by_broker) < 2:
        return []
    return results(row, by_broker[APACHE_NAME], by_broker[ODRADEK_NAME])


if __name__ == "__main__":
    sys.exit(main())
