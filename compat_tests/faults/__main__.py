"""`python -m compat_tests.faults --rounds 200 --seed 1 --nodes 3`: rounds one after the other, and what each came to."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from .faults import FAULTS
from .network import why_not
from .rounds import Plan, play


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each further one has the next")
    parser.add_argument("--nodes", type=int, default=3, choices=(3, 5))
    parser.add_argument("--faults", type=int, default=4, help="how many in a round")
    parser.add_argument("--only", action="append", choices=tuple(FAULTS), help="draw from these faults")
    parser.add_argument("--kind", choices=("odradek", "apache"), default="odradek")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the logs and histories of bad rounds there")
    options = parser.parse_args()
    if refused := why_not():
        sys.exit(refused)
    plan = Plan(options.kind, options.nodes, options.faults, names=tuple(options.only or FAULTS))
    bad = 0
    for seed in range(options.seed, options.seed + options.rounds):
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            outcome = play(seed, plan, Path(folder), lambda text: print(f"  {text}", flush=True))
            if outcome.anomalies and options.keep:
                shutil.copytree(folder, options.keep / f"seed-{seed}", dirs_exist_ok=True)
        print(outcome, flush=True)
        for told in outcome.anomalies[:20]:
            print(f"  {told}")
        bad += bool(outcome.anomalies)
    print(f"{options.rounds} rounds, {bad} with anomalies")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
