"""The wheel has the compiled kernel. Without a compiler it has none, and the broker is slower and logs it at its start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from compat_tests.needed_tools import needed
from tests.release import copy_tracked

pytestmark = pytest.mark.usefixtures("processes")

KERNEL = Path(__file__).resolve().parents[2] / "kernel"
_WITHOUT_KERNEL = """
import sys
sys.modules["odradek_kernel"] = None
from odradek.protocol.records import walk
from odradek.protocol.records.record import Record, encode_batch
assert not walk.IS_COMPILED
assert walk.walk(encode_batch([Record(0, 5, b"k", b"v")]), 61, 1, 5) == (walk.WHOLE, 5, 0, 0, 0)
from odradek.protocol.records import compression
from odradek.server.partitions import plain_batches
for codec in compression.Compression:
    if codec:
        assert compression.decompress_into(codec, compression.compress(codec, b"plain"), bytearray(5)) == 5
assert plain_batches.validated_header is plain_batches.pure_validated_header
import odradek
from compat_tests.wire import WireClient
from odradek.protocol.messages.metadata import MetadataRequest
with odradek.Broker() as broker, WireClient(broker.bootstrap_servers) as client:
    assert client.call(MetadataRequest([]), 12).brokers
print("served")
"""


#: `odradek` where the kernel is not installed.
_COMMAND_WITHOUT_KERNEL = """
import sys
sys.modules["odradek_kernel"] = None
from odradek.cli.main import main
sys.exit(main())
"""


def build(folder: Path, **environment: str) -> Path:
    """Builds the wheel from the tracked files. Returns its path."""
    copy_tracked(folder / "source")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-cache-dir",
        "--wheel-dir",
        str(folder),
    ]
    command.append(str(folder / "source"))
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment}, timeout=240)
    (made,) = folder.glob("*.whl")
    return made


def compiled(wheel: Path) -> list[str]:
    return [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith((".so", ".pyd"))]


def test_wheel_has_the_kernel_and_auditwheel_accepts_it(tmp_path: Path) -> None:
    needed("gcc")
    wheel = build(tmp_path)
    assert compiled(wheel) == ["odradek_kernel.abi3.so"]
    assert wheel.name.split("-")[2:4] == ["cp311", "abi3"], "one wheel for each platform, for Python 3.11 and later"
    repair = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(tmp_path / "repaired"), str(wheel)]
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    subprocess.run(repair, check=True, capture_output=True, env={**os.environ, "PATH": path}, timeout=240)
    (repaired,) = (tmp_path / "repaired").iterdir()
    assert "-manylinux_2_" in repaired.name and compiled(repaired) == ["odradek_kernel.abi3.so"]


def test_wheel_without_a_compiler_has_no_kernel(tmp_path: Path) -> None:
    assert compiled(build(tmp_path, CC="/nonexistent/cc")) == []


def test_wheels_of_a_release_are_for_the_common_platforms() -> None:
    listing = [sys.executable, "-m", "cibuildwheel", "--print-build-identifiers", "--platform"]
    listed = [
        subprocess.run([*listing, platform], cwd=KERNEL.parent, check=True, capture_output=True, text=True, timeout=120)
        for platform in ("linux", "macos")
    ]
    assert {name for one in listed for name in one.stdout.split()} == {
        *(f"cp311-{libc}_{machine}" for libc in ("manylinux", "musllinux") for machine in ("x86_64", "aarch64")),
        *(f"cp311-macosx_{machine}" for machine in ("x86_64", "arm64")),
    }


@pytest.mark.timeout(120)
def test_broker_serves_without_the_kernel() -> None:
    root = KERNEL.parent
    done = subprocess.run([sys.executable, "-c", _WITHOUT_KERNEL], cwd=root, capture_output=True, text=True, timeout=60)
    assert done.stdout == "served\n", done.stderr


@pytest.mark.timeout(120)
def test_start_without_the_kernel_logs_it_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _COMMAND_WITHOUT_KERNEL, "start", "--port", "0", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            assert "serving" in broker.stdout.readline()
            broker.send_signal(signal.SIGINT)
            _, log = broker.communicate(timeout=60)
        finally:
            broker.kill()
    assert log.count("the compiled kernel is missing") == 1, log
