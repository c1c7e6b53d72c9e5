"""`python -m tests.pythons [--all | --newest] [--versions 3.12 3.14t] [TEST ...]`: runs tests on the other Pythons.

Each CPython of this machine from 3.11 on gets an environment of its own in `.tools/pythons`. Without arguments, all tests of
the tier `pure` run there, random ones with a part of their examples, and a part of those with brokers; with `--newest`, that
part on the newest of them. Tests that need Java, and checks of sources and pages, are left out. A version that the
classifiers name and this machine lacks is printed.

The status is 1 when only tests fail, and 2 when an environment cannot be made or a version of `--versions` is absent.
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
#: The status of a run without tests on a version that it should have.
NOT_RUN = 2
_CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")


def classified_versions() -> list[str]:
    """Returns the minor versions that the package's classifiers name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [found[1] for one in project["classifiers"] if (found := _CLASSIFIER.fullmatch(one))]


def commands(environment: Environment, extent: str, tests: list[str]) -> list[list[str]]:
    """Returns the commands of pytest. `extent`: "all", "newest" or "part"."""
    words = [str(environment.python), "-m", "pytest", "-p", "without_java", "-p", "run_journal", "--quiet"]
    words += ["--override-ini", f"cache_dir={environment.folder / 'pytest_cache'}"]
    # The part runs beside other tests; each further process would import all modules once more.
    words += ["--numprocesses", "2", "--dist", "loadfile", "--no-loadscope-reorder"] if extent == "all" else []
    absent = {FOLDERS_OF_EXTRAS[extra] for extra in environment.without}
    if tests:
        return [[*words, *tests]]
    words += [f"--ignore-glob={ROOT / path}" for path in (*LEFT_OUT, *sorted(absent))]
    if extent == "all":
        return [[*words, "tests"]]
    part = [path for path in PART if not path.startswith(tuple(absent))]
    # The main run has all random examples. They take half of the time of the tier `pure`.
    words += ["--few-examples", "-m", "not slow"]
    if extent == "newest":
        return [[*words, *part]]
    return [[*words, "--tier", "pure", "tests"], [*words, "-p", "above_pure", *part]]


def surroundings(environment: Environment) -> dict[str, str]:
    """Returns the environment variables of a run. Its times do not count in the budgets of folders."""
    kept = {name: value for name, value in os.environ.items() if name not in ("ODRADEK_TEST_TIMES", "VIRTUAL_ENV")}
    path = os.pathsep.join((str(environment.python.parent), kept.get("PATH", os.defpath)))
    return {**kept, "PATH": path, "PYTHONPATH": str(ROOT / "tests" / "plugins")}


def run(environment: Environment, extent: str, tests: list[str]) -> int:
    try:
        environment.prepare()
    except InstallationFailed as error:
        print(f"{environment.interpreter.full_name}: {error}", flush=True)
        return NOT_RUN
    for extra in sorted(environment.without):
        print(f"without the tests of {FOLDERS_OF_EXTRAS[extra]}: {extra} has no wheels for this Python", flush=True)
    variables = surroundings(environment)
    ran = [
        subprocess.run(words, cwd=ROOT, env=variables, check=False).returncode
        for words in commands(environment, extent, tests)
    ]
    return max(ran, key=abs)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pythons", description=__doc__)
    extents = parser.add_mutually_exclusive_group()
    extents.add_argument(
        "--all", action="store_const", dest="extent", const="all", default="part", help="all tests that need no Java"
    )
    extents.add_argument(
        "--newest",
        action="store_const",
        dest="extent",
        const="newest",
        help="a part of them, on the newest Python only",
    )
    parser.add_argument(
        "--versions", nargs="+", default=[], metavar="3.N", help="only these; 3.Nt is a free-threaded build"
    )
    parser.add_argument("tests", nargs="*", help="only these files or folders")
    options = parser.parse_args()
    others = other_interpreters()
    here = {this_interpreter().name, *others}
    for version in sorted({*classified_versions(), *options.versions} - here):
        print(f"Python {version} is not on this machine", flush=True)
    failed = dict.fromkeys((version for version in options.versions if version not in others), NOT_RUN)
    chosen = dict(list(others.items())[-1:]) if options.extent == "newest" else others
    for name, interpreter in chosen.items():
        if options.versions and name not in options.versions:
            continue
        print(f"\n== Python {interpreter.full_name}, {interpreter.executable}", flush=True)
        status = run(Environment(interpreter), options.extent, options.tests)
        if status:
            failed[name] = status
        elif name.removesuffix("t") not in classified_versions():
            print(f"no classifier names {name}: run `python -m tests.pythons --all --versions {name}`, then add it")
    if failed:
        print(f"failed on: {', '.join(failed)}", flush=True)
    return max(map(abs, failed.values()), default=0)


if __name__ == "__main__":
    sys.exit(main())
