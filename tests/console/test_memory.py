"""The console gives freed memory back to the system: by the kernel where it is installed, by ctypes without it."""

from __future__ import annotations

import sys

import pytest
from odradek.console.backend import trimming


def test_kernel_trims_where_it_is_installed() -> None:
    kernel = pytest.importorskip("odradek_kernel")
    assert trimming() is kernel.trim_memory


def test_console_without_the_kernel_trims_by_ctypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "odradek_kernel", None)
    assert trimming()() in (None, 0, 1)  # None with another C library than glibc
