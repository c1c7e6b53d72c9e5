"""Tools that tests need beside the Python packages. A test without its tool skips, with a line on how to get the tool.

The run ends with the list of missing tools (tests/plugins/run_report.py). In CI such a test fails.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

#: Beside PATH: servers of the system, and what tests/system_packages unpacks.
_MORE_FOLDERS = f"/usr/sbin:/sbin:{Path(__file__).resolve().parents[1] / '.tools' / 'bin'}"
_HOW = {
    "chromedriver": "apt-get install chromium-driver",
    "chromium": "apt-get install chromium",
    "gcc": "apt-get install gcc libc6-dev",
    "go": "install Go 1.26 or newer (go.dev/dl)",
    "java": "apt-get install openjdk-17-jdk-headless",
    "kadmin.local": "apt-get install krb5-admin-server",
    "kcat": "apt-get install kcat",
    "kdb5_util": "apt-get install krb5-kdc",
    "kinit": "apt-get install krb5-user",
    "krb5kdc": "apt-get install krb5-kdc",
    "mvn": "apt-get install maven",
    "node": "install Node.js 18 or newer (apt-get install nodejs npm)",
    "npm": "install Node.js 18 or newer (apt-get install nodejs npm)",
    "promtool": "tests/system_packages, or a release of Prometheus (prometheus.io/download)",
    "systemd-analyze": "apt-get install systemd",
}


def needed(command: str) -> str:
    """Returns the path of a command. Skips the test if there is none."""
    found = shutil.which(command, path=f"{os.environ.get('PATH', os.defpath)}:{_MORE_FOLDERS}")
    return found or missing(f"{command}: {_HOW[command]}")


def missing(tool: str) -> NoReturn:
    """Skips the test. `tool`: the name of the tool, and how to get it, in one line."""
    import pytest  # `make test` downloads jars before it is installed

    pytest.skip(f"missing tool: {tool}")
