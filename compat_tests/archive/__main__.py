"""`python -m compat_tests.archive --rounds 30 --seed 1`: rounds of kill -9 of an archiver; prints the outcome of each."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from .rounds import Round, places


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.archive", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the first round: its kind of table and its place")
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--kills", type=int, default=3, help="deaths of the archiver in a round")
    options = parser.parse_args()
    bad = kills = 0
    for seed in range(options.seed, options.seed + options.rounds):
        kind, place = places(seed)
        with tempfile.TemporaryDirectory() as folder:
            outcome = Round(
                Path(folder), seed, kind, place, records=options.records, kills=options.kills
            ).execute()  # fmt: skip
        print(outcome, flush=True)
        for one in outcome.anomalies:
            print(f"  {one}")
        bad += bool(outcome.anomalies)
        kills += outcome.kills
    print(f"{options.rounds} rounds, {kills} kills, {bad} with anomalies")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
