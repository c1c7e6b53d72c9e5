"""kafka-python's own integration tests, pointed at a running broker.

They are in the source distribution of the installed version: `python -m compat_tests.kafka_python.suite` fetches it into
.tools/, `... suite HOST:PORT` runs the tests against a running broker.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
_TOOLS = HERE.parents[1] / ".tools"
_FILES = ("test_admin_integration.py", "test_consumer_integration.py", "test_producer_integration.py")
#: The broker version that the tests assume; it decides what they expect.
_KAFKA_VERSION = "4.3"
_DEADLINE_S = 900
#: A module of the tests that the distribution lacks; with a running broker they use only its first class.
_SERVICE = '''"""What the tests need when the broker runs already."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass

    def dump_logs(self):
        pass


class SpawnedService:
    def __init__(self, *args, **kwargs):
        raise RuntimeError("this suite is run against a broker that runs already")
'''


def home() -> Path:
    return _TOOLS / f"kafka-python-{version('kafka-python')}"


def fetch() -> Path:
    """Returns the directory of the suite; downloads and unpacks it when it is absent."""
    if (home() / "test" / "service.py").exists():
        return home()
    with tempfile.TemporaryDirectory() as folder:
        wanted = f"kafka-python=={version('kafka-python')}"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*command, "-d", folder, wanted], check=True, timeout=300)
        _unpack(next(Path(folder).glob("*.tar.gz")))
    return home()


def _unpack(archive: Path) -> None:
    shutil.rmtree(home(), ignore_errors=True)
    with tarfile.open(archive) as bundle:
        bundle.extractall(_TOOLS, filter="data")
    unpacked = _TOOLS / archive.name.removesuffix(".tar.gz")
    # The suite must test the installed package, not the one beside it.
    shutil.rmtree(unpacked / "kafka")
    unpacked.rename(home())
    (home() / "test" / "__init__.py").touch()
    (home() / "test" / "service.py").write_text(_SERVICE)


def run(bootstrap: str, *, only: list[str] | None = None, report: Path | None = None) -> dict[str, str]:
    """Runs the suite against a broker, and returns {test: "passed", "failed" or "skipped"}."""
    root = fetch()
    environment = {
        **os.environ,
        "KAFKA_URI": f"kafka://{bootstrap}",
        "KAFKA_VERSION": _KAFKA_VERSION,
        "KAFKA_ROOT": str(root),
        "PYTHONPATH": os.pathsep.join((str(root), str(HERE))),
    }
    with tempfile.TemporaryDirectory() as folder:
        results = report or Path(folder) / "results.xml"
        files = only or [f"test/integration/{name}" for name in _FILES]
        options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "own_suite_plugin",
            "-o",
            "log_level=WARNING",
            "--timeout=60",
            "--timeout-method=signal",
            "--tb=short",
        ]
        command = [sys.executable, "-m", "pytest", *options, f"--junitxml={results}", *files]
        done = subprocess.run(command, cwd=root, env=environment, timeout=_DEADLINE_S, capture_output=True, text=True)
        assert results.exists(), done.stdout + done.stderr
        return outcomes(results)


def outcomes(results: Path) -> dict[str, str]:
    """Returns a JUnit report as {test: outcome}; a failed set-up or tear-down fails the test."""
    found: dict[str, str] = {}
    for case in ElementTree.parse(results).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[name] = "failed" if found.get(name) == "failed" else outcome
    return found


def failures(results: Path, names: list[str]) -> str:
    """Returns the lines of the report about failed tests."""
    reported = []
    for case in ElementTree.parse(results).iter("testcase"):
        if any(name.endswith(f"::{case.get('name')}") for name in names):
            reported += [f"{case.get('name')}: {(child.text or '')[-1500:]}" for child in case if child.text]
    return "\n".join(reported)


if __name__ == "__main__":
    fetch()
    for bootstrap in sys.argv[1:]:
        for test, outcome in sorted(run(bootstrap).items()):
            print(f"{outcome:8} {test}")
