"""`python -m compat_tests.faults --rounds 200 --seed 1 --nodes 3`: runs rounds and prints the outcome of each."""

from __future__ import annotations

import sys
from pathlib import Path

from .faults import FAULTS
from .network import why_not
from .rounds import Outcome, Plan, execute
from .running import round_parser, run_rounds


def main() -> None:
    parser = round_parser("compat_tests.faults", __doc__)
    parser.add_argument("--lanes", type=int, default=1, help="how many rounds at a time, each on a network of its own")
    parser.add_argument("--nodes", type=int, default=3, choices=(3, 5))
    parser.add_argument("--faults", type=int, default=4, help="how many in a round")
    parser.add_argument("--only", action="append", choices=tuple(FAULTS), help="draw from these faults")
    parser.add_argument("--kind", choices=("odradek", "apache", "mixed"), default="odradek")
    parser.add_argument("--secured", action="store_true", help="mutual TLS between nodes, SCRAM within TLS for clients")
    options = parser.parse_args()
    if rejected := why_not():
        sys.exit(rejected)
    if options.secured and (options.kind == "apache" or options.lanes > 1):
        parser.error("--secured is of Odradek's or mixed nodes, one round at a time")
    plan = Plan(
        options.kind, options.nodes, options.faults, names=tuple(options.only or FAULTS), secured=options.secured
    )

    def executed(seed: int, folder: Path) -> Outcome:
        return execute(seed, plan, folder, lambda text: print(f"  seed {seed}: {text}", flush=True))

    run_rounds(options, executed, lambda seed, why: Outcome(seed, anomalies=[why]), lanes=options.lanes)


if __name__ == "__main__":
    main()
