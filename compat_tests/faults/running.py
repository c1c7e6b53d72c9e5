"""A command that runs rounds, each with a seed and a folder of its own, and prints their outcomes and totals."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn, Protocol

from compat_tests.broker_process import BrokerFailed

_MOST_SHOWN = 20


class RoundOutcome(Protocol):
    """`str()` of it is the line of the round."""

    anomalies: list[str]


def round_parser(module: str, words: str | None) -> argparse.ArgumentParser:
    """Returns a parser with the options of every command of rounds."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=words)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each further one has the next")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no further round after this time")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the logs and histories of bad rounds there")
    return parser


def run_rounds(
    options: argparse.Namespace,
    execute: Callable[[int, Path], RoundOutcome],
    failed: Callable[[int, str], RoundOutcome],
    *,
    kept: str = "*",
    lanes: int = 1,
) -> NoReturn:
    """Runs the rounds of the options, `lanes` at a time, and ends the process with status 1 if one had an anomaly.

    `failed` makes the outcome of a round that did not come to its end. `kept`: the files of a bad round to keep, as a
    pattern.
    """
    deadline = time.monotonic() + options.minutes * 60

    def executed(seed: int) -> RoundOutcome | None:
        if time.monotonic() > deadline:
            return None
        with tempfile.TemporaryDirectory(prefix="rounds-") as folder:
            try:
                outcome = execute(seed, Path(folder))
            except (AssertionError, BrokerFailed) as late:
                outcome = failed(seed, f"late: {late}")
            if outcome.anomalies and options.keep is not None:
                _keep(Path(folder), options.keep / f"seed-{seed}", kept)
        return outcome

    ran = bad = 0
    with ThreadPoolExecutor(lanes) as pool:
        for outcome in pool.map(executed, range(options.seed, options.seed + options.rounds)):
            if outcome is None:
                break
            ran += 1
            bad += bool(outcome.anomalies)
            print(outcome, *outcome.anomalies[:_MOST_SHOWN], sep="\n  ", flush=True)
    print(f"{ran} rounds, {bad} with anomalies")
    sys.exit(bool(bad))


def _keep(folder: Path, target: Path, pattern: str) -> None:
    for one in folder.glob(pattern):
        to = target / one.relative_to(folder)
        to.parent.mkdir(parents=True, exist_ok=True)
        if one.is_dir():
            shutil.copytree(one, to, dirs_exist_ok=True)
        else:
            shutil.copy(one, to)
