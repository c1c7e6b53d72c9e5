"""Freed memory goes back to the system: by the kernel where it is installed, by ctypes without it."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from odradek import heap


def test_kernel_trims_where_it_is_installed() -> None:
    kernel = pytest.importorskip("odradek_kernel")
    assert heap.malloc_trim() is kernel.trim_memory


def test_ctypes_trims_without_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "odradek_kernel", None)
    trim = heap.malloc_trim()
    assert trim is None or trim() in (0, 1)  # None with another C library than glibc


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's own function")
@pytest.mark.parametrize("provider", [heap.malloc_trim, heap.malloc_trim_by_ctypes])
def test_trim_of_glibc_can_be_called(provider: Callable[[], Callable[[], object] | None]) -> None:
    trim = provider()
    if trim is not None:  # None with musl
        assert trim() in (None, 0, 1)
