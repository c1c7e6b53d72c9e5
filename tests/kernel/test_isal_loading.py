"""The kernel uses ISA-L only if its version and layout are known, and keeps no handle of a library that it rejects."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
from isal import isal_zlib
from odradek.protocol.records.compiled_codecs import _is_supported_isal

from tests.kernel.sanitized import CORE, KERNEL

pytestmark = pytest.mark.usefixtures("processes")

#: A library with ISA-L's functions, whose structure differs by the bytes that it clears.
_OTHER_LAYOUT = """
#include <stdint.h>
#include <string.h>
void isal_inflate_init(void *state) { memset(state, 0, %d); memset((char *)state + %d, 0, 56); }
int isal_inflate_stateless(void *state) { (void)state; __builtin_trap(); }
uint32_t crc32_gzip_refl(uint32_t before, const uint8_t *data, uint64_t size) { return before + data[size - 1]; }
"""


def compile_library(path: Path, *arguments: str) -> None:
    command = ["gcc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", str(path), *arguments, "-ldl"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


@pytest.fixture
def core(tmp_path: Path) -> ctypes.CDLL:
    """Returns the kernel's functions without Python, in a library that has not loaded ISA-L."""
    compile_library(tmp_path / "core.so", *(str(KERNEL / name) for name in CORE))
    return ctypes.CDLL(str(tmp_path / "core.so"))


@pytest.mark.parametrize(("head", "tail"), [(48, 21160), (40, 21168), (32, 21160)])
def test_library_with_another_layout_is_rejected_and_closed(
    core: ctypes.CDLL, tmp_path: Path, head: int, tail: int
) -> None:
    other = tmp_path / "other.so"
    (tmp_path / "other.c").write_text(_OTHER_LAYOUT % (head, tail))
    compile_library(other, str(tmp_path / "other.c"))
    assert not core.load_isal(str(other).encode())
    assert str(other) not in Path("/proc/self/maps").read_text()
    assert core.load_isal(isal_zlib.__file__.encode())


def test_library_without_the_functions_is_rejected_and_closed(core: ctypes.CDLL, tmp_path: Path) -> None:
    other = tmp_path / "other.so"
    (tmp_path / "other.c").write_text("int isal_inflate_init;")
    compile_library(other, str(tmp_path / "other.c"))
    assert not core.load_isal(str(other).encode())
    assert str(other) not in Path("/proc/self/maps").read_text()


def test_library_is_loaded_once(core: ctypes.CDLL) -> None:
    path = isal_zlib.__file__.encode()
    assert [core.load_isal(path) for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("version", "is_supported"),
    [
        ("1.7.0", True),
        ("1.9.1", True),
        ("1.12.0", True),
        ("1.6.1", False),
        ("2.0.0", False),
        ("unknown", False),
        ("1", False),
    ],
)
def test_only_supported_versions_of_isal_are_offered(version: str, is_supported: bool) -> None:
    assert _is_supported_isal(version) == is_supported
