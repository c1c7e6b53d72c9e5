"""The compiled Go program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compat_tests.downloads import download

HERE = Path(__file__).resolve().parents[1]


_BINARY = HERE.parents[1] / ".tools" / "franz-go" / "franz"


@pytest.fixture(scope="session")
def program() -> Path:
    """Builds the program; Go's own cache makes a second build quick."""
    if shutil.which("go") is None:
        pytest.skip("`go` is not on the path: install Go 1.26 or newer")
    _BINARY.parent.mkdir(parents=True, exist_ok=True)
    command = ["go", "build", "-buildvcs=false", "-o", str(_BINARY), "."]
    download(command, cwd=HERE, timeout=300).check_returncode()
    return _BINARY
