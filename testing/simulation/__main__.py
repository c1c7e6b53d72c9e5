"""Runs seeds of the simulated cluster; see cluster/__init__.py."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback

from ...server.runtime.gc_policy import freeze
from .cluster import Ran, Run

#: Python's own hash seed, which decides the iteration order of some collections.
_HASH_SEED = "0"


def main() -> int:
    arguments = _arguments()
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:
        os.environ["PYTHONHASHSEED"] = _HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "odradek.testing.simulation", *sys.argv[1:]])
    began, executed, failed, acknowledged = time.perf_counter(), 0, 0, 0
    for seed in arguments.seeds:
        if arguments.budget_s and time.perf_counter() - began > arguments.budget_s:
            break
        if executed == 1:
            freeze()  # modules and codecs, which each seed would look through when it is over
        executed += 1
        ran = _execute(seed, arguments)
        failed += ran is None
        acknowledged += ran.acknowledged if ran is not None else 0
        if failed >= arguments.failures:
            break
    took_s = time.perf_counter() - began
    print(f"{executed} seeds, {failed} failed, {acknowledged} batches acknowledged, {took_s:.1f} s")
    return 1 if failed else 0


def _execute(seed: int, arguments: argparse.Namespace) -> Ran | None:
    run = Run(seed, arguments.duration_s, print if arguments.trace else None)
    began = time.process_time()
    try:
        ran = run.run()
    except Exception as failure:
        if not arguments.trace:
            print("\n".join(run.trace.lines))
        traceback.print_exception(failure)
        print(f"seed {seed}: {failure}; repeat with --seeds {seed} --trace (hash {run.trace.hash:08x})", flush=True)
        return None
    if not arguments.quiet:
        print(
            f"seed {seed}: hash {ran.hash:08x}, {ran.seconds:.1f} s in {time.process_time() - began:.2f} s of CPU, "
            f"{ran.events} events, {ran.acknowledged} batches acknowledged",
            flush=True,
        )
    return ran


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m odradek.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=_range, default=range(10), help="one seed, or FIRST-LAST")
    parser.add_argument(
        "--duration-s", type=float, default=40.0, help="duration of the phase with faults, in virtual time"
    )
    parser.add_argument(
        "--budget-s", type=float, default=0.0, help="start no further seed after this time (default: no limit)"
    )
    parser.add_argument("--failures", type=int, default=1, help="stop after this many failed seeds")
    parser.add_argument("--trace", action="store_true", help="print each event")
    parser.add_argument("--quiet", action="store_true", help="print only failures and the summary")
    return parser.parse_args()


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


if __name__ == "__main__":
    sys.exit(main())
