"""Installs packages into the environments that tests make, by uv where it is installed, else by pip.

uv keeps the unpacked files of each package in its cache and links them into an environment: a tenth of the CPU time of pip,
which copies, unpacks and hashes them again for each environment. uv reads none of pip's settings: where it fails, pip
installs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


class InstallationFailed(Exception):
    """The packages cannot be installed. The message is pip's."""


def install(python: Path, *words: str, deadline_s: float | None = None) -> None:
    """Installs requirements into the environment of `python`, modules not compiled. Raises InstallationFailed.

    `words`: requirements, and options that pip and uv share. `odradek` never comes from uv's cache: wheels of several states
    of the checkout have one version.
    """
    done = None
    for command in _commands(python):
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=deadline_s, check=False)
        if done.returncode == 0:
            return
    assert done is not None
    raise InstallationFailed(done.stdout + done.stderr)


def _commands(python: Path) -> list[list[str]]:
    """Returns the commands to try, in order: pip's error is the one to show."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install", "--quiet"]
    # The system's certificates, as for pip: a proxy may have one of its own.
    options = ["--quiet", "--native-tls", "--refresh-package", "odradek"]
    quick = [uv, "pip", "install", *options, "--python", str(python)] if uv else []
    return [*([quick] if quick else []), [*pip, "--no-compile", "--prefer-binary"]]
