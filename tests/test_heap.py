"""Freed memory goes back to the system: by the kernel where it is installed, by ctypes without it."""

from __future__ import annotations

import platform
import sys

import pytest
from odradek import heap

IS_GLIBC = sys.platform == "linux" and platform.libc_ver()[0] == "glibc"


def test_kernel_trims_where_it_is_installed() -> None:
    kernel = pytest.importorskip("odradek_kernel")
    trim = heap.malloc_trim()
    assert trim is kernel.trim_memory
    trim()


def test_ctypes_trims_by_glibc_without_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other C library has the function."""
    monkeypatch.setitem(sys.modules, "odradek_kernel", None)
    for provider in (heap.malloc_trim, heap.malloc_trim_by_ctypes):
        trim = provider()
        assert (trim is not None) is IS_GLIBC
        if trim is not None:
            assert trim() in (0, 1)


def test_c_library_without_the_function_trims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "odradek_kernel", None)
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    assert heap.malloc_trim() is None
