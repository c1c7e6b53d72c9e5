"""Installs the tools, each into an environment of its own in .tools: `python -m compat_tests.ecosystem.install`.

Arguments name tools; `--kept` means those of `make test`; the default is all. Each tool's folder pins its dependencies. A
tool whose pins and programs did not change is skipped.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

from ..downloads import download
from .tools import BY_FOLDER, TOOLS, Tool, kind_of, pinned_version

_TOOLS = Path(__file__).resolve().parents[2] / ".tools" / "ecosystem"
_DEADLINE_S = 1800
#: The files that define an environment; a change installs it again.
_PARTS = ("requirements.txt", "package*.json", "go.*", "*.go", "pom.xml", "*.java", "packages.txt")


class ToolMissing(RuntimeError):
    """Raised when a tool is not installed or cannot be; the message contains the remedy."""


def environment(tool: Tool) -> Path:
    """Returns the directory of a tool's environment, which may not exist yet."""
    return _TOOLS / tool.folder


def is_installed(tool: Tool) -> bool:
    stamp = environment(tool) / ".complete"
    return stamp.exists() and stamp.read_text() == _fingerprint(tool)


def installed_version(tool: Tool) -> str:
    """Returns the version of a tool: the pinned one, or for Debian's packages the upstream part of apt's version."""
    if kind_of(tool) != "debian":
        return pinned_version(tool)
    record = environment(tool) / "version"
    return record.read_text().strip() if record.exists() else "?"


def install(tool: Tool) -> None:
    """Installs a tool, unless its environment is complete. Raises ToolMissing."""
    if is_installed(tool):
        return
    print(f"installing {tool.name} ({kind_of(tool)}) ...", flush=True)
    home = environment(tool)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    _INSTALLERS[kind_of(tool)](tool, home)
    (home / ".complete").write_text(_fingerprint(tool))


def _fingerprint(tool: Tool) -> str:
    files = sorted({path for pattern in _PARTS for path in tool.home.glob(pattern)})
    return hashlib.sha256(b"\0".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()


def _with_pip(tool: Tool, home: Path) -> None:
    venv.create(home, with_pip=True)
    requirements = str(tool.home / "requirements.txt")
    _run(
        [str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "--quiet", "--requirement", requirements]
    )


def _with_npm(tool: Tool, home: Path) -> None:
    _command("npm", "Node.js 18 or newer with npm (Debian: apt-get install npm)")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(tool.home / name, home / name)
    _run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=home)


def _with_go(tool: Tool, home: Path) -> None:
    _command("go", "Go 1.26 or newer")
    _run(["go", "build", "-buildvcs=false", "-o", str(home / "program"), "."], cwd=tool.home)


def _with_maven(tool: Tool, home: Path) -> None:
    maven = _command("mvn", "Maven (Debian: apt-get install maven)")
    jars = f"-DoutputDirectory={home / 'jars'}"
    _run([maven, "-q", "-B", "-f", str(tool.home / "pom.xml"), "dependency:copy-dependencies", jars])
    if programs := sorted(str(path) for path in tool.home.glob("*.java")):
        javac = _command("javac", "a JDK of version 17 or newer (Debian: apt-get install openjdk-17-jdk-headless)")
        options = ["-parameters", "-nowarn", "-proc:none", "-cp", f"{home / 'jars'}/*", "-d", str(home / "classes")]
        _run([javac, *options, *programs])


def _with_debian(tool: Tool, home: Path) -> None:
    """Unpacks missing packages and their dependencies: this needs no root and replaces no daemon."""
    names = (tool.home / "packages.txt").read_text(encoding="utf-8").split()
    if shutil.which("apt-get") is None:
        absent = [command for command in tool.commands if shutil.which(command) is None]
        if absent:
            raise ToolMissing(f"{tool.name} is not on the path: install it (Debian's packages: {' '.join(names)})")
        (home / "version").write_text("of this system")
        return
    for package in _absent_packages(names):
        _run(["apt-get", "download", "-qq", package], cwd=home)
    for file in home.glob("*.deb"):
        _run(["dpkg", "-x", str(file), str(home / "root")])
        file.unlink()
    policy = _run(["apt-cache", "policy", tool.package])
    found = re.search(r"Candidate: (?:\d+:)?([^\s+-]+)", policy)
    (home / "version").write_text(found[1] if found else "?")


def _absent_packages(names: list[str]) -> list[str]:
    """Returns `name=version` of each package that `apt-get install` would install."""
    simulate = ["apt-get", "install", "--simulate", "--no-install-recommends", *names]
    try:
        planned = _run(simulate)
    except ToolMissing:
        if os.geteuid() != 0:
            raise ToolMissing(f"apt-get does not know {' '.join(names)}: run `apt-get update` as root first") from None
        _run(["apt-get", "update", "-qq"])
        planned = _run(simulate)
    return [f"{name}={version}" for name, version in re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+)", planned, re.M)]


_INSTALLERS: dict[str, Callable[[Tool, Path], None]] = {
    "pip": _with_pip,
    "npm": _with_npm,
    "go": _with_go,
    "maven": _with_maven,
    "debian": _with_debian,
}


def _run(command: list[str], cwd: Path | None = None) -> str:
    done = download(command, cwd=cwd, timeout=_DEADLINE_S)
    if done.returncode != 0:
        raise ToolMissing(f"`{' '.join(command)}` failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def _command(name: str, what: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ToolMissing(f"`{name}` is not on the path; it comes with {what}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=", ".join(BY_FOLDER))
    parser.add_argument("--kept", action="store_true", help="the tools of `make test`")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.tools if name not in BY_FOLDER]
    if unknown:
        parser.error(f"no tool is called {', '.join(unknown)}")
    kept = [tool.folder for tool in TOOLS if tool.is_kept and options.kept]
    failed = 0
    for name in options.tools or kept or BY_FOLDER:
        try:
            install(BY_FOLDER[name])
        except (ToolMissing, subprocess.TimeoutExpired) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
