"""Damages data directories, for as long as you like:

python -m tests.hostile.damage --seed 7 --minutes 60 --file __cluster_metadata-0 --each 5
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.hostile.damaged_directories import DamageFound, Images, cases, run


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile.damage", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=0, help="each kind of file and damage once unless given")
    parser.add_argument("--each", type=int, default=1, help="how often each kind of file gets each damage in one round")
    parser.add_argument("--file", default="", help="only files whose path holds this")
    parser.add_argument("--damage", default="", help="only this damage")
    parser.add_argument("--folder", help="where the data directories are; one in memory is faster")
    options = parser.parse_args()
    deadline = time.monotonic() + options.minutes * 60
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="odradek-damage-", dir=options.folder) as name:
        folder = Path(name)
        images = Images.make(folder)
        seed = options.seed
        while seed == options.seed or time.monotonic() < deadline:
            for case in cases(images, seed, options.each):
                if options.file not in case.file or options.damage not in case.damage:
                    continue
                try:
                    outcome = run(images, case, folder)
                except DamageFound as found:
                    outcome = "FAILED"
                    print(f"FAILED {found}", flush=True)
                outcomes[outcome] += 1
                if seed > options.seed and time.monotonic() > deadline:
                    break
            seed += 1
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))
    return 1 if outcomes["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
