"""Requests of every API, of random sizes: each costs in proportion to its size and blocks the loop only for a short time.

    python -m tests.hostile.cost --seed 1 --minutes 60

Prints each finding, and at the end the violations; the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import random
import time

from tests.hostile.cost_check import all_shapes, check, made_world
from tests.hostile.cost_probe import MeasuredBroker
from tests.hostile.cost_requests import Shape

#: Items of the largest requests.
SIZES = (8_000, 32_000, 128_000, 500_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--only", default="", help="shapes whose name has this text")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    shapes: list[Shape] = [shape for shape in all_shapes() if options.only in str(shape)]
    ends = time.monotonic() + 60 * options.minutes
    violations: list[str] = []
    with MeasuredBroker(**{"auto.create.topics.enable": False}) as broker:
        world = made_world(broker)
        while time.monotonic() < ends:
            shape, most = rng.choice(shapes), rng.choice(SIZES)
            finding = check(broker, world, shape, most)
            print(finding, flush=True)
            violations += finding.violations()
    for violation in violations:
        print("VIOLATED", violation)
    return 1 if violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
