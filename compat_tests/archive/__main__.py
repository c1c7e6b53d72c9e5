"""`python -m compat_tests.archive --rounds 30 --seed 1`: rounds of kill -9 of an archiver; prints the outcome of each."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from .rounds import Round, places
from .spark_rounds import SparkRound, spark_place


def _round(folder: Path, seed: int, options: argparse.Namespace) -> Round:
    if options.spark:
        return SparkRound(folder, seed, spark_place(seed), records=options.records)
    kind, place = places(seed)
    return Round(folder, seed, kind, place, records=options.records, kills=options.kills)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.archive", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the first round: its kind of table and its place")
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--kills", type=int, default=3, help="deaths of the archiver in a round")
    parser.add_argument("--spark", action="store_true", help="the PySpark job: driver, executor and broker die")
    options = parser.parse_args()
    bad = kills = 0
    for seed in range(options.seed, options.seed + options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            outcome = _round(Path(folder), seed, options).execute()
        print(outcome, flush=True)
        for one in outcome.anomalies:
            print(f"  {one}")
        bad += bool(outcome.anomalies)
        kills += outcome.kills
    print(f"{options.rounds} rounds, {kills} kills, {bad} with anomalies")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
