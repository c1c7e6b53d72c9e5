"""Runs seeds of whole brokers in simulated time, and judges their histories.

    python -m tests.simulated --hours 1000 --minutes 600 --workers 2
    python -m tests.simulated --only 7 [--trace]
    python -m tests.simulated --table
    python -m tests.simulated --bugs

Results are lines of `results.jsonl` in the folder, by commit; the same command goes on after the last seed. Each seed is a
process of its own. The history of a bad seed stays in the folder, and `--only` makes it again, byte for byte.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from odradek.testing.simulation.cluster.faults import KINDS

from tests.simulated.bugs import BUGS, environment_of, inject
from tests.simulated.plan import WORKLOADS, Given, draw
from tests.simulated.result import Result, read, result_of, table
from tests.simulated.round import Round

_ROOT = Path(__file__).resolve().parents[2]
#: Python's own hash seed, which decides the order of sets.
_HASH_SEED = "0"
_NICENESS = 10
#: A seed that takes longer than this much real time is bad: a loop that never ends.
_LONGEST_S = 4 * 3600
#: Seeds for an injected bug, and their simulated time.
_BUG_SEEDS, _BUG_S = 8, 120.0


def main() -> int:
    options = _options()
    if options.only is not None:
        return _run_one(options)
    if options.bugs is not None:
        return _show_bugs(options.bugs or list(BUGS), options.seconds or _BUG_S, options.folder)
    options.folder.mkdir(parents=True, exist_ok=True)
    results, commit = options.folder / "results.jsonl", _commit()
    if not options.table:
        _run_many(options, results, commit)
    found = read(results, commit)
    print(table(found))
    return 0 if all(one.is_good for one in found) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulated",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--hours", type=float, default=10.0, help="of simulated time, with the results so far")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no seed after this real time (0: no limit)")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--workers", type=int, default=1, help="seeds at a time")
    parser.add_argument("--seconds", type=float, help="the simulated time of each seed; by default the seed draws it")
    parser.add_argument("--fault", action="append", choices=KINDS, default=[], help="of each seed, in place of its own")
    parser.add_argument("--workload", action="append", choices=WORKLOADS, default=[], help="the same, of workloads")
    parser.add_argument("--long", action="store_true", help="quiet stretches of hours, in which ids expire")
    parser.add_argument("--folder", type=Path, default=Path("simulated-hours"), help="of results and bad histories")
    parser.add_argument("--only", type=int, metavar="SEED", help="run this seed here, and show its verdict")
    parser.add_argument("--trace", action="store_true", help="with --only: print each event")
    parser.add_argument("--keep", action="store_true", help="with --only: keep the history of a good seed")
    parser.add_argument("--table", action="store_true", help="print the table of the results so far")
    parser.add_argument(
        "--bugs", nargs="*", choices=BUGS, help="put all or these bugs into the brokers, until a seed finds each"
    )
    return parser.parse_args()


def _run_many(options: argparse.Namespace, results: Path, commit: str) -> None:
    began = time.monotonic()
    done = read(results, commit)
    hours = sum(one.seconds for one in done) / 3600
    seeds = _seeds(options.seed, {one.seed for one in done})
    running: set[Future[Result]] = set()
    with ThreadPoolExecutor(options.workers) as pool:
        while True:
            is_time_left = not options.minutes or time.monotonic() - began < options.minutes * 60
            while hours < options.hours and is_time_left and len(running) < options.workers:
                running.add(pool.submit(_run_apart, next(seeds), _arguments(_given(options)), options.folder, commit))
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for one in ended:
                result = one.result()
                hours += result.seconds / 3600
                with results.open("a", encoding="utf-8") as file:
                    file.write(result.to_line())
                print(_summary(result), f"{hours:.1f} h in all", flush=True)


def _seeds(first: int, done: set[int]) -> Iterator[int]:
    return (seed for seed in itertools.count(first) if seed not in done)


def _summary(result: Result) -> str:
    state = "good" if result.is_good else f"BAD: {result.anomalies or result.broken}"
    idle = f", idle: {'; '.join(result.idle)}" if result.idle else ""
    return (
        f"seed {result.seed}: {result.seconds / 3600:.2f} h, {result.operations} operations, {result.cpu_s:.0f} s of CPU, "
        f"hash {result.hash:08x}, {state}{idle};"
    )


def _given(options: argparse.Namespace) -> Given:
    return Given(options.seconds, options.fault, options.workload, options.long)


def _arguments(given: Given) -> list[str]:
    """Returns the arguments of a seed's process that stand for what the seed would draw."""
    return [
        *([] if given.seconds is None else ["--seconds", str(given.seconds)]),
        *(argument for fault in given.faults for argument in ("--fault", fault)),
        *(argument for workload in given.workloads for argument in ("--workload", workload)),
        *(["--long"] if given.is_long else []),
    ]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONHASHSEED": _HASH_SEED, "PYTHONPATH": str(_ROOT)}


def _run_apart(seed: int, arguments: Sequence[str], folder: Path, commit: str) -> Result:
    """Runs a seed in a process, whose last line of output is the result."""
    try:
        ran = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.simulated",
                "--only",
                str(seed),
                "--folder",
                str(folder.resolve()),
                *arguments,
            ],
            capture_output=True,
            text=True,
            check=False,
            env=_environment(),
            cwd=_ROOT,
            timeout=_LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        return Result(seed, commit, broken=f"did not end in {_LONGEST_S} s")
    (folder / f"{seed}.txt").write_text(ran.stdout + ran.stderr, encoding="utf-8")
    lines = ran.stdout.splitlines()
    if not lines or not lines[-1].startswith("{"):
        return Result(seed, commit, broken=f"status {ran.returncode}: {ran.stderr[-1500:]}")
    result = replace(Result(**json.loads(lines[-1])), commit=commit)
    if result.is_good:
        (folder / f"{seed}.txt").unlink()
    return result


def _run_one(options: argparse.Namespace) -> int:
    """Runs a seed in this process."""
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:
        os.chdir(_ROOT)
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulated", *sys.argv[1:]], _environment())
    options.folder.mkdir(parents=True, exist_ok=True)
    commit = _commit()  # of the code that is imported now
    inject()
    history = options.folder / f"{options.only}.jsonl"
    round_ = Round(draw(options.only, _given(options)), history, print if options.trace else None)
    outcome = round_.run()
    if not outcome.is_good and not options.trace:
        print("\n".join(round_.trace.lines))
    print(outcome.verdict)
    print(f"plan: {outcome.plan}")
    result = result_of(outcome, commit, time.process_time())
    if result.is_good and not options.keep:
        history.unlink()
    print(_summary(result))
    print(result.to_line(), end="")
    return 0 if result.is_good else 1


def _commit() -> str:
    ran = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
        check=False,
        cwd=_ROOT,
    )
    return ran.stdout.strip() or "unknown"


def _show_bugs(names: Sequence[str], seconds: float, folder: Path) -> int:
    """Runs seeds with each bug until one finds it. Returns the number of bugs that none finds."""
    missed = 0
    for name in names:
        bug = BUGS[name]
        os.environ.update(environment_of(name))
        found: Sequence[str] = ()
        for seed in range(1, _BUG_SEEDS + 1):
            arguments = _arguments(Given(seconds, bug.faults, bug.workloads))
            result = _run_apart(seed, arguments, folder / name, "bug")
            found = sorted(set(bug.found_as) & set(result.anomalies))
            if found:
                print(f"{name}: seed {seed} finds {', '.join(found)}", flush=True)
                break
        else:
            missed += 1
            print(f"{name}: not found by {_BUG_SEEDS} seeds", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
