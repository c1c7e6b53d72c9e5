"""The types of the test kit in the installed package, checked by a user's strict type checker."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import odradek
import pytest
from odradek.testing.cluster import Isolation
from odradek.testing.control_port import ControlPort
from odradek.testing.embedded_clock import EmbeddedClock
from odradek.testing.faults import Fault, Faults
from odradek.testing.groups_seen import GroupView
from odradek.testing.registry.server import SchemaRegistry
from odradek.testing.request_log import RequestLog, SeenRequest
from odradek.testing.simulation import Node, Process, Simulation
from odradek.testing.topics_seen import SeenRecord, TopicView

from compat_tests.downloads import install_npm
from tests.harness.type_checker import lines_with_errors

_ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = Path(__file__).with_name("user_program.py")
#: The pinned version of pyright, and its installation by npm (38 MB).
_PINNED, _PYRIGHT = Path(__file__).with_name("pyright"), _ROOT / ".tools" / "pyright"
_FACE = (
    odradek.Broker, odradek.Cluster, Isolation, ControlPort, EmbeddedClock, Fault, Faults, SchemaRegistry, GroupView,
    RequestLog, SeenRequest, SeenRecord, TopicView, Node, Process, Simulation,
)  # fmt: skip
#: Public names that tests do not use: brokers call them, or messages contain them.
_OF_BROKERS = {"Fault.strike", "Fault.strike_write", "Faults.add", "RequestLog.add", "Node.life", "Node.server"}
_OF_BROKERS |= {"Broker.noun", "Cluster.noun"}
#: Settings of four client libraries have values of many types, including types of `ssl`.
_OF_ANY = {"Broker.client_settings", "Cluster.client_settings"}
#: Each line from the second on has a mistake; the last has a value of type Any, which pyright's strict mode allows.
_MISTAKES = """import odradek
odradek.Brocker()
broker = odradek.Broker(prot=0)
broker.faults.fail("Produce", eror="NOT_LEADER_OR_FOLLOWER")
broker.faults.disk_full(client_id="checkout")
number: int = broker.topic("orders").records()[0].value
broker.clock.advance(weeks=1)
broker.tpoic("orders")
settings = broker.client_settings("java")
"""


@pytest.fixture(scope="module")
def environment(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns an environment with the tests' dependencies and the installed package, so that a checker reads py.typed."""
    folder = tmp_path_factory.mktemp("types")
    venv.create(folder / "venv")
    (site,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    (site / "odradek").symlink_to(_ROOT)
    (folder / "program.py").write_text(_PROGRAM.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "mistakes.py").write_text(_MISTAKES)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


@pytest.fixture(scope="module")
def checked(environment: Path) -> str:
    """Returns what mypy prints about both programs: one run, since it reads the whole package first."""
    python = environment / "venv" / "bin" / "python"
    command = [sys.executable, "-m", "mypy", "--strict", "--disallow-any-expr", "--config-file", ""]
    command += ["--python-executable", str(python), "program.py", "mistakes.py"]
    command += ["--cache-dir", str(environment / "cache")]
    done = subprocess.run(command, cwd=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_user_program_is_strictly_typed_and_meets_no_any(checked: str) -> None:
    assert [line for line in checked.splitlines() if not line.startswith(("mistakes.py:", "Found "))] == []


def test_mistakes_of_a_user_program_are_errors(checked: str) -> None:
    found = lines_with_errors([line for line in checked.splitlines() if line.startswith("mistakes.py:")])
    assert found == set(range(2, 10)), checked


def _pyright() -> Path:
    """Returns the program of pyright. Installs the pinned version where it is absent."""
    return install_npm(_PINNED, _PYRIGHT) / "pyright" / "index.js"


@pytest.mark.usefixtures("processes")
def test_pyright_in_strict_mode_accepts_the_program_and_finds_the_mistakes(environment: Path) -> None:
    config = {"typeCheckingMode": "strict", "venvPath": str(environment), "venv": "venv", "include": ["*.py"]}
    (environment / "pyrightconfig.json").write_text(json.dumps(config))
    command = ["node", str(_pyright()), "--outputjson", "--project", str(environment)]
    done = subprocess.run(command, cwd=environment, capture_output=True, text=True, timeout=280)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 2, report
    errors = [one for one in report["generalDiagnostics"] if Path(one["file"]).name == "program.py"]
    assert errors == []
    found = {one["range"]["start"]["line"] + 1 for one in report["generalDiagnostics"]}
    assert found == set(range(2, 9)), report


@pytest.mark.usefixtures("processes")
def test_user_program_names_the_whole_face() -> None:
    text = _PROGRAM.read_text(encoding="utf-8")
    used = set(re.findall(r"\.(\w+)", text))
    public = {
        f"{each.__name__}.{name}" for each in _FACE for name, _ in inspect.getmembers(each) if not name.startswith("_")
    }
    missing = {name for name in public if name.rpartition(".")[2] not in used}
    assert missing <= _OF_BROKERS | _OF_ANY, f"user_program.py does not use {sorted(missing - _OF_BROKERS - _OF_ANY)}"
    assert {name for name in odradek.__all__ if not name.startswith("_")} <= used
