"""`python -m compat_tests.faults --rounds 200 --seed 1 --nodes 3`: runs rounds and prints the outcome of each."""

from __future__ import annotations

import argparse
import functools
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compat_tests.broker_process import BrokerFailed

from .faults import FAULTS
from .network import why_not
from .rounds import Outcome, Plan, execute


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each further one has the next")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no further round after this time")
    parser.add_argument("--lanes", type=int, default=1, help="how many rounds at a time, each on a network of its own")
    parser.add_argument("--nodes", type=int, default=3, choices=(3, 5))
    parser.add_argument("--faults", type=int, default=4, help="how many in a round")
    parser.add_argument("--only", action="append", choices=tuple(FAULTS), help="draw from these faults")
    parser.add_argument("--kind", choices=("odradek", "apache", "mixed"), default="odradek")
    parser.add_argument("--secured", action="store_true", help="mutual TLS between nodes, SCRAM within TLS for clients")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the logs and histories of bad rounds there")
    options = parser.parse_args()
    if rejected := why_not():
        sys.exit(rejected)
    if options.secured and (options.kind == "apache" or options.lanes > 1):
        parser.error("--secured is of Odradek's or mixed nodes, one round at a time")
    plan = Plan(
        options.kind, options.nodes, options.faults, names=tuple(options.only or FAULTS), secured=options.secured
    )
    bad = ran = 0
    deadline = time.monotonic() + options.minutes * 60
    with ThreadPoolExecutor(options.lanes) as lanes:
        seeds = range(options.seed, options.seed + options.rounds)
        for outcome in lanes.map(functools.partial(executed, plan=plan, keep=options.keep, deadline=deadline), seeds):
            if outcome is None:
                break
            ran += 1
            print(outcome, flush=True)
            for reported in outcome.anomalies[:20]:
                print(f"  {reported}")
            bad += bool(outcome.anomalies)
    print(f"{ran} rounds, {bad} with anomalies")
    sys.exit(bool(bad))


def executed(seed: int, plan: Plan, keep: Path | None, deadline: float) -> Outcome | None:
    """Returns None when there is no time left for the round."""
    if time.monotonic() > deadline:
        return None
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        try:
            outcome = execute(seed, plan, Path(folder), lambda text: print(f"  seed {seed}: {text}", flush=True))
        except (AssertionError, BrokerFailed) as late:
            outcome = Outcome(seed, anomalies=[f"late: {late}"])
        if outcome.anomalies and keep:
            shutil.copytree(folder, keep / f"seed-{seed}", dirs_exist_ok=True)
    return outcome


if __name__ == "__main__":
    main()
