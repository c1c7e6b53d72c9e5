"""Test suites that come with packages, run against `odradek.Broker`: `make own-suites`.

It downloads their source distributions by name. Two take the broker's address from an environment variable, and no line
is changed; testcontainers' own tests of its Kafka module get other imports. docs/development/testing.md names the packages
whose distributions have no tests with a broker.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections import Counter
from pathlib import Path

import odradek

from compat_tests.broker_process import free_port
from compat_tests.fixtures import UNDER_TEST
from compat_tests.kafka_python import suite

_FAUST = "faust-streaming>=0.15.3,<0.16"
#: The packages that its conftest.py imports.
_FAUST_NEEDS = ("pytest<8", "pytest-asyncio<0.24", "confluent-kafka", "freezegun", "aiohttp")
#: The last release whose source distribution has the tests of its modules.
_TESTCONTAINERS = "testcontainers==4.14.2"
_TESTCONTAINERS_IMPORT = re.compile(r"^from testcontainers\.[\w.]+ import", re.MULTILINE)


def kafka_python(broker: odradek.Broker, folder: Path) -> dict[str, str]:
    """Runs kafka-python's integration tests; `KAFKA_URI` names the broker."""
    return suite.run(broker.bootstrap_servers, report=folder / "results.xml")


def faust(broker: odradek.Broker, folder: Path) -> dict[str, str]:
    """Runs Faust's tests with a broker in an environment of their own; `FAUST_TEST_BROKER` names the broker."""
    source = _unpacked(_FAUST, folder)
    # The tests must import the installed package, not the one beside them.
    (source / "tests").rename(folder / "tests")
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", _FAUST, *_FAUST_NEEDS], check=True, timeout=600)
    environment = {**os.environ, "FAUST_TEST_BROKER": f"kafka://{broker.bootstrap_servers}"}
    return _outcomes(python, folder, "tests/integration/broker", environment)


def testcontainers(broker: odradek.Broker, folder: Path) -> dict[str, str]:
    """Runs the tests of testcontainers' Kafka module with the classes of `odradek.testing.testcontainers`. They start
    brokers of their own.
    """
    tests = _unpacked(_TESTCONTAINERS, folder) / "modules" / "kafka" / "tests"
    for module in tests.glob("test_*.py"):
        text = module.read_text(encoding="utf-8")
        module.write_text(
            _TESTCONTAINERS_IMPORT.sub("from odradek.testing.testcontainers import", text), encoding="utf-8"
        )
    tests.rename(folder / "tests")
    return _outcomes(sys.executable, folder, "tests", dict(os.environ))


def _unpacked(requirement: str, folder: Path) -> Path:
    """Downloads the source distribution of a package. Returns its directory in `folder`."""
    name = re.split("[<>=]", requirement)[0]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name, "-d", str(folder)]
    subprocess.run([*command, requirement], check=True, timeout=300)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as bundle:
        bundle.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def _outcomes(python: str, folder: Path, tests: str, environment: dict[str, str]) -> dict[str, str]:
    """Runs tests below `folder`, with the options of no other project's files."""
    report = folder / "results.xml"
    command = [python, "-m", "pytest", "-q", "--rootdir", str(folder), "-c", os.devnull, f"--junitxml={report}", tests]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert report.exists(), done.stdout + done.stderr
    return suite.outcomes(report)


def _config() -> dict[str, str]:
    """Returns the properties that these suites need."""
    address = f"PLAINTEXT://127.0.0.1:{free_port()}"
    return {
        **UNDER_TEST,
        "listeners": address,
        "advertised.listeners": address,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


SUITES = {"kafka-python": kafka_python, "faust-streaming": faust, "testcontainers": testcontainers}


def main() -> int:
    failed = 0
    for name in sys.argv[1:] or SUITES:
        with tempfile.TemporaryDirectory() as folder, odradek.Broker(config=_config()) as broker:
            outcomes = SUITES[name](broker, Path(folder))
        counts = Counter(outcomes.values())
        print(f"{name}: {', '.join(f'{count} {outcome}' for outcome, count in sorted(counts.items()))}")
        for test, outcome in sorted(outcomes.items()):
            if outcome != "passed":
                print(f"  {outcome}: {test}")
        failed += counts["failed"]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
