"""`python -m tests.explored [--states N] [NAME ...]`: explores each configuration, up to N states."""

from __future__ import annotations

import argparse
import time

from tests.explored.configurations import CONFIGURATIONS
from tests.explored.explorer import explore


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.explored", description=__doc__)
    parser.add_argument("--states", type=int, default=100_000, help="the most states of each configuration")
    parser.add_argument("names", nargs="*", help=f"by default all: {', '.join(CONFIGURATIONS)}")
    options = parser.parse_args()
    for name in options.names or CONFIGURATIONS:
        began = time.process_time()
        report = explore(CONFIGURATIONS[name](), options.states)
        print(f"{name:<36} {report}, {time.process_time() - began:.1f} s CPU", flush=True)


if __name__ == "__main__":
    main()
