"""`python -m tests.ranges [--end lowest|newest] [--group NAME] [--quick] [--instead "duckdb>=1.3,<3"]`: tests of the extras
at both ends of the ranges of pyproject.toml.

Each group of extras is installed at the lowest versions that its ranges allow, then at the newest, and its tests run there.
A range is wrong when a test fails (status 1), or when its lowest version cannot be installed beside the other packages
(status 2): a range names what ran. `--instead` tries another range in place of that of pyproject.toml.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.pythons.environments import ROOT
from tests.ranges.environments import ENDS, FOLDER, Environment, Unresolved


class Group(NamedTuple):
    """Extras that are installed together. `quick`: tests that `make test` runs; `more`: those of `make nightly` besides."""

    extras: tuple[str, ...]
    quick: tuple[str, ...]
    more: tuple[str, ...]


GROUPS = {
    "broker": Group(
        ("odradek", "security", "fast", "telemetry", "tiers"),
        (
            "tests/protocol/test_kernel_codecs.py",
            "tests/security/test_oauthbearer.py",
            "tests/server/observability/test_metrics_http.py",
            "tests/server/observability/test_telemetry.py",
        ),
        ("tests/tiers/test_stores.py", "tests/security", "tests/coordinator", "tests/storage/test_recovery.py"),
    ),
    "client": Group(
        ("odradek", "cli", "console", "decoding", "backup", "parquet", "columns", "tables", "registry"),
        (
            "tests/archive/test_tables.py",
            "tests/cli/test_decoding.py",
            "tests/columns/test_inference.py",
            "tests/columns/test_odd_records.py",
            "tests/columns/test_scan.py",
            "tests/columns/test_values.py",
            "tests/console/test_login.py",
            "tests/console/test_single_sign_on.py",
            "tests/console/test_views.py",
            "tests/testing/test_schema_compatibility.py",
        ),
        (
            "compat_tests/console/test_guards.py",
            "tests/archive",
            "tests/cli/test_client_commands.py",
            "tests/columns",
            "tests/console",
            "tests/testing/test_schema_registry.py",
        ),
    ),
}
"""The broker's own extras, and those of commands and programs. Each has the lowest versions that its own packages allow."""

#: Extras that no group has: `kerberos` is compiled, and the releases of Spark are those of docs/development/spark-notes.md.
LEFT_OUT = ("kerberos", "spark", "spark-pipelines")


def command(environment: Environment, group: Group, is_quick: bool) -> list[str]:
    words = [str(environment.python), "-m", "pytest", "-p", "without_java", "-p", "run_journal", "--quiet"]
    words += ["--override-ini", f"cache_dir={environment.folder / 'pytest_cache'}"]
    words += ["--few-examples", *(("-m", "not slow") if is_quick else ())]
    return [*words, *group.quick, *(() if is_quick else group.more)]


#: A range that cannot be as it is, whatever the tests say.
WRONG_RANGE = 2


def run(name: str, end: str, options: argparse.Namespace) -> tuple[int, list[str]]:
    """Runs the tests of a group at one end. Returns the status, and what is wrong."""
    group = GROUPS[name]
    environment = Environment(name, group.extras, end, options.instead, options.folder)
    try:
        installed = environment.prepare()
    except Unresolved as error:
        return WRONG_RANGE, [f"the {end} versions of {name} cannot be installed: {error}"]
    found = environment.untried_bounds(installed)
    variables = {key: value for key, value in os.environ.items() if key not in ("ODRADEK_TEST_TIMES", "VIRTUAL_ENV")}
    variables["PATH"] = os.pathsep.join((str(environment.python.parent), variables.get("PATH", os.defpath)))
    variables["PYTHONPATH"] = str(ROOT / "tests" / "plugins")
    chosen = Group((), tuple(options.tests), ()) if options.tests else group
    words = command(environment, chosen, options.quick)
    status = subprocess.run(words, cwd=ROOT, env=variables, check=False).returncode
    if found:
        return WRONG_RANGE, found
    return status, [f"tests of {name} fail with the {end} versions"] if status else []


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ranges", description=__doc__)
    parser.add_argument("--end", choices=ENDS, action="append", help="only this end of the ranges")
    parser.add_argument("--group", choices=GROUPS, action="append", help="only this group of extras")
    parser.add_argument("--quick", action="store_true", help="the tests that `make test` runs")
    parser.add_argument("--instead", action="append", default=[], metavar="RANGE", help="a range to try; repeatable")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the environments are kept")
    parser.add_argument("tests", nargs="*", help="only these files or folders")
    options = parser.parse_args()
    statuses, wrong = [0], []
    for name in options.group or GROUPS:
        for end in options.end or ENDS:
            print(f"\n== the {end} versions of {name}", flush=True)
            status, found = run(name, end, options)
            statuses.append(status)
            wrong += found
    for one in wrong:
        print(f"wrong range: {one}", flush=True)
    return max(statuses, key=abs)


if __name__ == "__main__":
    sys.exit(main())
