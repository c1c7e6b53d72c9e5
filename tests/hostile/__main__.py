"""Runs attacks beside a good client, for as long as you like:

    python -m tests.hostile --seed 7 --minutes 60 --nodes 3 --attack bomb_of_zeros --attack half_frames

Each round runs every attack once, in random order, on the same brokers. The program prints one line per attack, and the
conditions that failed below it. The exit status is 1 if any attack failed.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.hostile.attack_target import LONGEST_WAIT_MS, AttackTarget
from tests.hostile.attacks import ATTACKS
from tests.hostile.attacks_requests import OF_EVERY_API, use_every_api


def _in_mb(sizes: list[int]) -> str:
    return " and ".join(f"{size >> 20}" for size in sizes) + " MB"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="of the attacks' order and contents")
    parser.add_argument("--minutes", type=float, default=0, help="each attack once unless given")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument("--attack", action="append", choices=sorted(ATTACKS), help="only this one; may be repeated")
    parser.add_argument("--scale", type=float, default=1.0, help="the size of the attacks")
    parser.add_argument("--longest-wait-ms", type=float, default=LONGEST_WAIT_MS, help="of the good client")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # brokers end with this program
    rng = random.Random(options.seed)
    names = options.attack or list(ATTACKS)
    deadline = time.monotonic() + options.minutes * 60
    failed = 0
    with (
        tempfile.TemporaryDirectory(prefix="odradek-hostile-") as folder,
        AttackTarget(Path(folder), options.nodes, scale=options.scale) as room,
    ):
        room.keep_client()
        if set(names) & set(OF_EVERY_API):
            use_every_api(room)
        print(f"memory at the start {_in_mb(room.memory())}")
        rounds = 0
        while not rounds or time.monotonic() < deadline:
            rounds += 1
            rng.shuffle(names)
            for name in names:
                outcome = room.run(partial(ATTACKS[name], rng=rng))  # type: ignore[call-arg]
                violations = outcome.violations(options.longest_wait_ms)
                failed += bool(violations)
                print("FAILED" if violations else "held  ", outcome, flush=True)
                for violation in violations:
                    print("       -", violation.replace("\n", "\n         "), flush=True)
                if rounds > 1 and time.monotonic() > deadline:
                    break
            # Topics, groups and producers of a round stay on the brokers.
            print(f"memory after round {rounds} {_in_mb(room.settled_memory())}")
        print(room.check_records())
    print(f"{failed} attacks did not hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
