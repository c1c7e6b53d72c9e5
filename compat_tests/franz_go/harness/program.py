"""The compiled Go program."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.downloads import download
from compat_tests.needed_tools import needed

HERE = Path(__file__).resolve().parents[1]


_BINARY = HERE.parents[1] / ".tools" / "franz-go" / "franz"


@pytest.fixture(scope="session")
def program() -> Path:
    """Builds the program; Go's own cache makes a second build quick."""
    needed("go")
    _BINARY.parent.mkdir(parents=True, exist_ok=True)
    command = ["go", "build", "-buildvcs=false", "-o", str(_BINARY), "."]
    download(command, cwd=HERE, timeout=300).check_returncode()
    return _BINARY
