"""Java's keytool."""

from __future__ import annotations

import subprocess
from pathlib import Path

from compat_tests.java.fetch import java


def keytool(*arguments: str) -> None:
    tool = Path(java()).with_name("keytool")
    subprocess.run([str(tool), *arguments], check=True, capture_output=True, timeout=60)
