"""`python -m tests.mutants --sample N --seed N [--modules PATTERN ...]`: which of N mutants of the core do the tests kill?

The first run records which tests reach which blocks, for some minutes; later runs repeat that for changed test files.
Survivors are shown with their differences. `equivalent.toml` lists mutants that no test can kill, each with a reason.

None of the published tools serves here. mutmut 3 and cosmic-ray 8 draw no sample by a seed. mutatest 3 does, and needs
coverage below 6. pytest-gremlins 1 draws none, and neither deletes statements nor forces branches. irradiate 0.4 draws one;
it is an alpha version that comes as a binary. Most start pytest for each mutant, which takes longer here than the tests.
"""

from __future__ import annotations

import argparse
import functools
import os
import random
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.core import ROOT, InThisProcess, modules
from tests.mutants.mutation import Mutant, mutants_in
from tests.mutants.reach import ReachMap, ReachRecorder
from tests.mutants.runner import KILLED, SURVIVED, TIMED_OUT, UNREACHED, MutantRunner, Outcome, is_replaceable

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
#: The limit of a test that waits for something which does not happen.
_TEST_TIMEOUT_SECONDS = 150


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=200, help="the number of mutants")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the sample")
    parser.add_argument(
        "--modules", nargs="*", default=[], help="patterns of paths, such as 'storage/*'; by default the core"
    )
    parser.add_argument("--at", nargs="*", default=[], help="run only these of the sample: patterns of FILE:LINE")
    parser.add_argument(
        "--tests", nargs="*", default=[], help="folders or files of tests; by default those of the core"
    )
    parser.add_argument(
        "--recorded", action="store_true", help="record nothing: tests without a current record do not run"
    )
    options = parser.parse_args()
    chosen = sample(options.modules, options.sample, options.seed)
    if options.at:
        chosen = [
            mutant for mutant in chosen if any(fnmatch(f"{mutant.module}:{mutant.line}", at) for at in options.at)
        ]
    if not options.recorded:
        _in_fork(_record, options.tests)
    reach = ReachMap.load(options.tests)
    equivalents = [mutant for mutant in chosen if reason_of(mutant) is not None]
    runner = MutantRunner([mutant for mutant in chosen if mutant not in equivalents], reach)
    _run_pytest(reach.files, runner)
    report(runner.outcomes, equivalents, reach)


def sample(patterns: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Draws the kind of each mutant first, and then one of that kind: most of all mutants are deleted statements.

    They are in the order in which they were drawn, so that the first ones are a sample, too.
    """
    of_kind: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants_in(ROOT, modules(patterns)):
        of_kind[mutant.kind].append(mutant)
    rng = random.Random(seed)
    found: dict[Mutant, None] = {}
    while len(found) < count and of_kind:
        kind = rng.choice(sorted(of_kind))
        mutants = of_kind[kind]
        mutant = mutants.pop(rng.randrange(len(mutants)))
        if not mutants:
            del of_kind[kind]
        if is_replaceable(mutant, (ROOT / mutant.module).read_bytes()):
            found[mutant] = None
    return list(found)


def reason_of(mutant: Mutant) -> str | None:
    """Returns why the mutant is equivalent to the original; None if it is not listed."""
    reasons = _reasons().get((mutant.module, mutant.function, mutant.kind))
    return reasons.get(shown(mutant, (ROOT / mutant.module).read_bytes())) if reasons else None


@functools.cache
def _reasons() -> dict[tuple[str, str, str], dict[str, str]]:
    """Returns the listed reasons by module, function and kind, and then by the difference."""
    found: defaultdict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for row in tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("mutant", []):
        found[row["module"], row["function"], row["kind"]][row["diff"].strip()] = row["reason"]
    return found


def shown(mutant: Mutant, source: bytes) -> str:
    """Returns the difference without indentation, as `equivalent.toml` has it."""
    return "\n".join(f"{line[:1]}{line[1:].strip()}" for line in mutant.diff(source).splitlines())


def _in_fork(function: Any, *arguments: Any) -> None:
    """Calls the function in a process of its own, since this one must not import the product yet."""
    process = os.fork()
    if not process:
        try:
            function(*arguments)
        finally:
            os._exit(0)
    os.waitpid(process, 0)


def _record(patterns: Sequence[str]) -> None:
    stale = ReachMap.load(patterns).stale
    if stale:
        print(f"recording which blocks {len(stale)} test files reach", flush=True)
        _run_pytest(stale, ReachRecorder(modules([]), stale))


def _run_pytest(files: Sequence[str], plugin: Any) -> None:
    assert not any(name.partition(".")[0] == "odradek" for name in sys.modules), "the product is imported too early"
    os.chdir(ROOT)
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        os.environ |= {"TMPDIR": folder, "HYPOTHESIS_STORAGE_DIRECTORY": folder}
        tempfile.tempdir = None
        fixed = ["-q", "-s", "--tb=no", "--no-summary", "-p", "no:cacheprovider"]
        pytest.main([*fixed, f"--timeout={_TEST_TIMEOUT_SECONDS}", *files], plugins=[InThisProcess(), plugin])


def report(outcomes: Sequence[Outcome], equivalents: Sequence[Mutant], reach: ReachMap) -> None:
    of_status: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        of_status[outcome.status].append(outcome)
    for status in (TIMED_OUT, UNREACHED, SURVIVED):
        for outcome in of_status[status]:
            mutant = outcome.mutant
            print(
                f"\n{status}: {mutant} in {mutant.function}, {outcome.ran} of {outcome.reaching} tests {outcome.test}"
            )
            print(mutant.diff((ROOT / mutant.module).read_bytes()))
    counts = Counter({status: len(of_status[status]) for status in (KILLED, TIMED_OUT, SURVIVED, UNREACHED)})
    noticed = counts[KILLED] + counts[TIMED_OUT]
    print(
        f"\n{len(outcomes) + len(equivalents)} mutants in {len({o.mutant.module for o in outcomes})} modules: ", end=""
    )
    print(
        ", ".join(f"{count} {status}" for status, count in counts.items()), f", {len(equivalents)} equivalent", sep=""
    )
    if outcomes:
        print(f"{noticed} of {len(outcomes)} that are not equivalent are noticed: {noticed / len(outcomes):.1%}")
    if reach.failing:
        print(
            f"{len(reach.failing)} tests fail without a mutant, and did not run: {', '.join(sorted(reach.failing)[:5])}"
        )
    if reach.stale:
        print(f"{len(reach.stale)} test files have no record, and did not run")


if __name__ == "__main__":
    main()
