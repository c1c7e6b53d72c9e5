"""`python -m tests.pythons [--all] [--versions 3.12 3.14t] [TEST ...]`: runs tests on the other Pythons of this machine.

Each CPython of 3.11 and later gets an environment of its own in `.tools/pythons`. Without arguments, all tests of the tier
`pure` run there, random ones with a part of their examples, and a part of those with brokers. Tests that need Java, and
checks of sources and pages, are left out. A version that this package's classifiers name and this machine lacks is printed.
The program fails when a test fails, when an environment cannot be made, and when a version of `--versions` is absent.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib

from tests.installing import InstallationFailed
from tests.pythons.environments import FOLDERS_OF_EXTRAS, ROOT, Environment
from tests.pythons.interpreters import other_interpreters, this_interpreter

#: Checks of sources, pages and builds, the tests of Spark, which has a Python of its own, and those that need the extras
#: `benchmarks` and `kerberos`.
LEFT_OUT = (
    "tests/benchmarks", "tests/docs", "tests/kernel", "tests/pythons", "tests/spark", "tests/test_*.py",
    "tests/console/test_base_install.py", "tests/protocol/test_codecs_benchmark.py", "tests/security/test_kerberos*.py",
)  # fmt: skip
#: Beside the tier `pure`, `make test` runs what depends on the interpreter, in about a minute for each version: threads and
#: their ends, memory, the compiled kernel, compiled loops, recovery, brokers in the process of the tests, and the test kit.
PART = (
    "tests/client",
    "tests/columns/test_scan.py",
    "tests/protocol/test_kernel_codecs.py",
    "tests/server/node/test_embedded_programs.py",
    "tests/server/runtime",
    "tests/storage/test_recovery.py",
    "tests/testing/test_plugin.py",
    "tests/testing/test_snapshots.py",
)
_CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")


def classified_versions() -> list[str]:
    """Returns the minor versions that the package's classifiers name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [found[1] for one in project["classifiers"] if (found := _CLASSIFIER.fullmatch(one))]


def commands(environment: Environment, is_whole: bool, tests: list[str]) -> list[list[str]]:
    words = [str(environment.python), "-m", "pytest", "-p", "without_java", "--quiet"]
    words += ["--override-ini", f"cache_dir={environment.folder / 'pytest_cache'}"]
    # The part runs beside other tests; each further process would import all modules once more.
    words += ["--numprocesses", "2", "--dist", "loadfile", "--no-loadscope-reorder"] if is_whole else []
    absent = {FOLDERS_OF_EXTRAS[extra] for extra in environment.without}
    if tests:
        return [[*words, *tests]]
    words += [f"--ignore-glob={ROOT / path}" for path in (*LEFT_OUT, *sorted(absent))]
    if is_whole:
        return [[*words, "tests"]]
    part = [path for path in PART if not path.startswith(tuple(absent))]
    # The main run has all random examples. They take half of the time of the tier `pure`.
    words.append("--few-examples")
    return [[*words, "--tier", "pure", "tests"], [*words, "-p", "above_pure", "-m", "not slow", *part]]


def surroundings(environment: Environment) -> dict[str, str]:
    """Returns the environment variables of a run. Its times do not count in the budgets of folders."""
    kept = {name: value for name, value in os.environ.items() if name not in ("ODRADEK_TEST_TIMES", "VIRTUAL_ENV")}
    path = os.pathsep.join((str(environment.python.parent), kept.get("PATH", os.defpath)))
    return {**kept, "PATH": path, "PYTHONPATH": str(ROOT / "tests" / "plugins")}


def run(environment: Environment, is_whole: bool, tests: list[str]) -> int:
    try:
        environment.prepare()
    except InstallationFailed as error:
        print(f"{environment.interpreter.full_name}: {error}", flush=True)
        return 1
    for extra in sorted(environment.without):
        print(f"without the tests of {FOLDERS_OF_EXTRAS[extra]}: {extra} has no wheels for this Python", flush=True)
    variables = surroundings(environment)
    ran = [
        subprocess.run(words, cwd=ROOT, env=variables, check=False).returncode
        for words in commands(environment, is_whole, tests)
    ]
    return max(ran, key=abs)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pythons", description=__doc__)
    parser.add_argument("--all", action="store_true", help="all tests that need no Java")
    parser.add_argument(
        "--versions", nargs="+", default=[], metavar="3.N", help="only these; 3.Nt is a free-threaded build"
    )
    parser.add_argument("tests", nargs="*", help="only these files or folders")
    options = parser.parse_args()
    others = other_interpreters()
    here = {this_interpreter().name, *others}
    for version in sorted({*classified_versions(), *options.versions} - here):
        print(f"Python {version} is not on this machine", flush=True)
    failed = [version for version in options.versions if version not in others]
    for name, interpreter in others.items():
        if options.versions and name not in options.versions:
            continue
        print(f"\n== Python {interpreter.full_name}, {interpreter.executable}", flush=True)
        if run(Environment(interpreter), options.all, options.tests):
            failed.append(name)
        elif name.removesuffix("t") not in classified_versions():
            print(f"no classifier names {name}: run `python -m tests.pythons --all --versions {name}`, then add it")
    if failed:
        print(f"failed on: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
