"""The compiled Go program."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.go_programs import build_go
from compat_tests.needed_tools import needed

HERE = Path(__file__).resolve().parents[1]


_BINARY = HERE.parents[1] / ".tools" / "franz-go" / "franz"


@pytest.fixture(scope="session")
def program() -> Path:
    needed("go")
    build_go(HERE, _BINARY)
    return _BINARY
