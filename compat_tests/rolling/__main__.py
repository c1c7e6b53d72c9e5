"""`python -m compat_tests.rolling --rolls 9`: the matrix of rolling restarts. Exits with 1 if a client lost or hung."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from .matrix import KINDS, Result, Run, table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.rolling", description=__doc__)
    parser.add_argument("--rolls", type=int, default=9)
    parser.add_argument("--target", choices=("odradek", "apache", "both"), default="odradek")
    parser.add_argument("--interval", type=float, default=20.0, help="seconds from the begin of a roll to the next")
    parser.add_argument("--clients", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="a property of the nodes")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the logs and notes of the clients there")
    options = parser.parse_args()
    overrides = dict(text.split("=", 1) for text in options.override)
    targets = ("odradek", "apache") if options.target == "both" else (options.target,)
    results: list[Result] = []
    for target in targets:
        with tempfile.TemporaryDirectory(prefix="rolling-") as folder:
            run = Run(target, options.clients, Path(folder), lambda line: print(line, flush=True), **overrides)
            try:
                results.append(run.execute(options.rolls, options.interval))
            finally:
                if options.keep:
                    shutil.copytree(folder, options.keep / target, dirs_exist_ok=True)
    print(table(results))
    sys.exit(not all(row.is_good for row in results[0].rows.values()))


if __name__ == "__main__":
    main()
