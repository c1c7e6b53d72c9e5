"""franz-go: a small Go program (main.go) that does one check at a time."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from compat_tests.downloads import download

HERE = Path(__file__).resolve().parent
_BINARY = HERE.parents[1] / ".tools" / "franz-go" / "franz"
#: The names of the checks, as main.go's table has them.
CHECKS = re.findall(r'^\t"([a-z0-9-]+)":', (HERE / "main.go").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="session")
def program() -> Path:
    """Builds the program; Go's own cache makes a second build quick."""
    if shutil.which("go") is None:
        pytest.skip("`go` is not on the path: install Go 1.26 or newer")
    _BINARY.parent.mkdir(parents=True, exist_ok=True)
    command = ["go", "build", "-buildvcs=false", "-o", str(_BINARY), "."]
    download(command, cwd=HERE, timeout=300).check_returncode()
    return _BINARY


@pytest.mark.parametrize("check", CHECKS)
def test_franz_go_finds_what_it_expects(check: str, program: Path, bootstrap: str, topic: str, group: str) -> None:
    command = [str(program), bootstrap, check, topic, group]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
