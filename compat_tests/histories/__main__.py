"""Judges histories of operations, and makes them.

    python -m compat_tests.histories check FILE...
    python -m compat_tests.histories run --hours 0.5 --seed 1 [--target apache]
    python -m compat_tests.histories delayed-end [--target apache]
    python -m compat_tests.histories bugs

`run` needs Linux and root: each node has a network namespace of its own.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from compat_tests.faults.network import why_not

from .bugs import BUGS
from .cluster_faults import FAULTS
from .delayed_end import TARGETS
from .delayed_end import execute as execute_delayed_end
from .operation import MalformedHistory, read
from .rounds import WORKLOADS, Outcome, Plan, execute
from .verdict import judge


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m compat_tests.histories",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    checking = commands.add_parser("check", help="judge files of operations; status 1 for an anomaly, 2 for a bad file")
    checking.add_argument("files", nargs="+", type=Path)
    checking.set_defaults(run=lambda options: max(check(file) for file in options.files))
    running = commands.add_parser("run", help="run rounds of workloads and faults, and judge each")
    running.add_argument("--hours", type=float, default=0.1, help="begin no round after this time")
    running.add_argument("--seed", type=int, default=1, help="of the first round; the next ones count on")
    running.add_argument("--target", choices=("odradek", "apache", "mixed"), default="odradek")
    running.add_argument("--nodes", type=int, choices=(3, 5), default=3)
    running.add_argument("--seconds", type=float, default=90, help="of workloads and faults in a round")
    running.add_argument("--only", action="append", choices=tuple(FAULTS), help="draw from these faults")
    running.add_argument("--workload", action="append", choices=tuple(WORKLOADS), help="run these only")
    running.add_argument("--keep", type=Path, default=Path("histories"), help="folder for the files of bad rounds")
    running.set_defaults(run=run)
    delayed = commands.add_parser(
        "delayed-end", help="show the anomaly of a delayed EndTxn under transaction version 1"
    )
    delayed.add_argument("--target", choices=tuple(TARGETS), default="odradek")
    delayed.set_defaults(run=lambda options: delayed_end(options.target))
    injecting = commands.add_parser("bugs", help="put bugs into Odradek, and show that each is found")
    injecting.add_argument("--only", action="append", choices=tuple(BUGS))
    injecting.set_defaults(run=lambda options: bugs(options.only or list(BUGS)))
    options = parser.parse_args()
    # A program in the background inherits that SIGINT is ignored. Either signal ends nodes and networks.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    # Clients log each lost connection.
    logging.disable(logging.ERROR)
    status: int = options.run(options)
    return status


def check(file: Path) -> int:
    try:
        verdict = judge(read(file))
    except (OSError, MalformedHistory) as error:
        print(f"{file}: {error}", file=sys.stderr)
        return 2
    print(f"{file}\n{verdict}")
    return 1 if verdict.violations else 0


def run(options: argparse.Namespace) -> int:
    if rejected := why_not():
        sys.exit(rejected)
    plan = Plan(
        options.target,
        options.nodes,
        options.seconds,
        tuple(options.only or FAULTS),
        tuple(options.workload or WORKLOADS),
    )
    began, seed, bad, operations = time.monotonic(), options.seed, 0, 0
    while seed == options.seed or time.monotonic() - began < options.hours * 3600:
        outcome = _round(seed, plan, options.keep)
        print(outcome, flush=True)
        bad += not outcome.is_good
        operations += outcome.verdict.operations if outcome.verdict else 0
        seed += 1
    hours = (time.monotonic() - began) / 3600
    print(
        f"{seed - options.seed} rounds, {hours:.2f} hours, {operations} operations, {bad} rounds with anomalies or late"
    )
    return 1 if bad else 0


def _round(seed: int, plan: Plan, keep: Path | None) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="histories-") as folder:
        outcome = execute(seed, plan, Path(folder), lambda text: print(f"  seed {seed}: {text}", flush=True))
        if not outcome.is_good and keep is not None:
            target = keep / f"{plan.kind}-{seed}"
            target.mkdir(parents=True, exist_ok=True)
            for file in [*Path(folder).glob("*.jsonl"), *Path(folder).glob("node-*/broker.log")]:
                shutil.copy(file, target / "-".join(file.relative_to(folder).parts))
    return outcome


def delayed_end(target: str) -> int:
    status = 0
    for version in (1, 2):
        for late_commit in (True, False):
            with tempfile.TemporaryDirectory(prefix="histories-") as folder:
                verdict = execute_delayed_end(target, version, late_commit=late_commit, directory=Path(folder))
            late = "commit" if late_commit else "abort"
            found = ", ".join(sorted(verdict.found)) or "none"
            print(f"{target}, transaction version {version}, late {late}: {found}", flush=True)
            status |= bool(verdict.found) != (version == 1)
    return status


def bugs(names: list[str]) -> int:
    status = 0
    for name in names:
        outcome = _round(1, BUGS[name].plan, None)
        found = outcome.verdict.found if outcome.verdict else set()
        is_found = bool(found & BUGS[name].found_as)
        print(
            f"{name}: {'found' if is_found else 'NOT found'}, anomalies: {', '.join(sorted(found)) or 'none'}",
            flush=True,
        )
        status |= not is_found
    return status


if __name__ == "__main__":
    sys.exit(main())
