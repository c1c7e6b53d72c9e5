"""Clusters that `odradek cluster` starts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SERVING = re.compile(r"^odradek: (?P<count>\d+) brokers serving on (?P<addresses>\S+) \(data in (?P<data>.+)\)$")


DEADLINE_S = 120


def cluster(verb: str, directory: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "odradek", "cluster", verb, "--data-dir", str(directory), *more]


def asked(verb: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(cluster(verb, directory), capture_output=True, text=True, timeout=DEADLINE_S)


def started(directory: Path, *more: str) -> tuple[subprocess.Popen[str], list[str]]:
    """Starts a cluster. Returns the process and the addresses that it printed."""
    command = cluster("start", directory, *more)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = SERVING.match(line.rstrip("\n"))
    assert found, (line, process.stderr and process.stderr.read())
    return process, found["addresses"].split(",")
