"""franz-go: a small Go program (main.go) that does one check at a time."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from compat_tests.franz_go.harness.program import HERE

#: The names of the checks, as main.go's table has them.
CHECKS = re.findall(r'^\t"([a-z0-9-]+)":', (HERE / "main.go").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("check", CHECKS)
def test_franz_go_finds_what_it_expects(check: str, program: Path, bootstrap: str, topic: str, group: str) -> None:
    command = [str(program), bootstrap, check, topic, group]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
