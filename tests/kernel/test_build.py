"""The compiled walk is an optional distribution: it builds with a compiler, and without it the broker is only slower."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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
from odradek.server.partitions import batch_validation
for codec in compression.Compression:
    if codec:
        assert compression.decompress_into(codec, compression.compress(codec, b"plain"), bytearray(5)) == 5
assert batch_validation.plain_header is batch_validation.pure_plain_header
import odradek
from compat_tests.wire import WireClient
from odradek.protocol.messages.metadata import MetadataRequest
with odradek.Broker() as broker, WireClient(broker.bootstrap_servers) as client:
    assert client.call(MetadataRequest([]), 12).brokers
print("served")
"""


def build(folder: Path, **environment: str) -> list[str]:
    """Builds the wheel. Returns its files."""
    source = folder / "kernel"
    source.mkdir()
    for file in KERNEL.iterdir():
        if file.suffix in (".c", ".h", ".toml"):
            (source / file.name).write_bytes(file.read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment}, timeout=240)
    (made,) = folder.glob("*.whl")
    return zipfile.ZipFile(made).namelist()


def test_kernel_builds_with_a_compiler(tmp_path: Path) -> None:
    assert "odradek_kernel.abi3.so" in build(tmp_path)


def test_kernel_builds_an_empty_wheel_without_a_compiler(tmp_path: Path) -> None:
    assert not [name for name in build(tmp_path, CC="/nonexistent/cc") if name.endswith((".so", ".pyd"))]


@pytest.mark.timeout(120)
def test_broker_serves_without_the_kernel() -> None:
    root = KERNEL.parent
    done = subprocess.run([sys.executable, "-c", _WITHOUT_KERNEL], cwd=root, capture_output=True, text=True, timeout=60)
    assert done.stdout == "served\n", done.stderr
