"""Environments with the packages of the extras at one end of their ranges, and the checks of what was installed there.

uv resolves the requirements of a group of extras to the lowest versions that the ranges allow, or to the newest. The
packages of the tests themselves have the versions of `.venv`. Environments stay in `.tools/ranges` between runs.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from tests.pythons.environments import ROOT, copy_distribution, distributed_extras

FOLDER = ROOT / ".tools" / "ranges"
#: The ends of the ranges, with uv's names for them.
ENDS = {"lowest": "lowest-direct", "newest": "highest"}
#: Packages that run the tests.
_OF_TESTS = (
    "aiokafka", "axe-core-python", "boto3", "cachetools", "confluent-kafka", "hypothesis", "kafka-python", "lz4", "moto",
    "psutil", "pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "python-snappy", "pyyaml", "rich", "selenium",
    "trustme", "typer",
)  # fmt: skip
#: Packages that read a scan, with the range of another extra.
_READERS = ("polars",)
#: The HTTP client of old versions of confluent-kafka's schema registry client.
_MORE_OF_TESTS = "httpx>=0.28,<1"
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?(?P<range>[^;]*)(;.*)?")
_LOWER_BOUND = re.compile(r"(?:>=|==)\s*([^,\s]+)")
_INSTALLED = "import json; from importlib.metadata import distributions as all; " + (
    "print(json.dumps({one.name.lower().replace('_', '-'): one.version for one in all()}))"
)


class Unresolved(Exception):
    """The requirements do not fit each other or cannot be installed. The message is uv's."""


class Requirement(NamedTuple):
    """`range`: its part of pyproject.toml, such as `>=1.4,<3`."""

    name: str
    range: str

    @property
    def lower_bound(self) -> str | None:
        found = _LOWER_BOUND.search(self.range)
        return found[1] if found else None


def requirement_of(text: str) -> Requirement:
    found = _REQUIREMENT.fullmatch(text)
    assert found is not None, text
    return Requirement(_normal(found["name"]), found["range"].strip())


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


class Environment:
    """An environment of this Python. `instead`: requirements in place of those that pyproject.toml has."""

    def __init__(self, name: str, extras: Iterable[str], end: str, instead: Iterable[str], folder: Path) -> None:
        self.folder = folder / f"{name}-{end}"
        self.python = self.folder / "bin" / "python"
        self._end = end
        self.requirements = _with(instead, _requirements(extras))

    def prepare(self) -> dict[str, str]:
        """Installs, and returns the versions of the packages. Raises Unresolved."""
        if not self.python.exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            _uv("venv", str(self.folder), "--python", sys.executable)
        listed, locked = self.folder / "requirements.in", self.folder / "requirements.txt"
        pinned = [f"{name}=={metadata.version(name)}" for name in _OF_TESTS if not self._has(name)]
        listed.write_text("\n".join([*self.requirements, *pinned, _MORE_OF_TESTS]) + "\n", encoding="utf-8")
        to_locked = ("--python", str(self.python), "--output-file", str(locked), "--upgrade")
        _uv("pip", "compile", str(listed), "--resolution", ENDS[self._end], *to_locked)
        _uv("pip", "sync", "--python", str(self.python), str(locked))
        copy_distribution("odradek", self.python)
        done = subprocess.run([self.python, "-c", _INSTALLED], capture_output=True, text=True, check=True)
        return {_normal(name): version for name, version in json.loads(done.stdout).items()}

    def _has(self, name: str) -> bool:
        return any(requirement_of(one).name == name for one in self.requirements)

    def untried_bounds(self, installed: dict[str, str]) -> list[str]:
        """The ranges whose lower bound no test can have run with: the other packages do not allow it."""
        if self._end != "lowest":
            return []
        found = []
        for text in self.requirements:
            one = requirement_of(text)
            version = installed.get(one.name)
            if version is not None and one.lower_bound is not None and not _is_same(version, one.lower_bound):
                found.append(f"{one.name}{one.range}: {version} is the lowest that its extra installs")
        return found


def _is_same(version: str, bound: str) -> bool:
    """Whether a version is the bound; 1.4.0 is 1.4."""
    return _padded(version) == _padded(bound)


def _padded(version: str) -> list[str]:
    parts = version.split(".")
    while parts and parts[-1] == "0":
        parts.pop()
    return parts


def _requirements(extras: Iterable[str]) -> list[str]:
    known = distributed_extras()
    found = {requirement for extra in extras for requirement in known[extra]}
    if "columns" in extras:
        found |= {one for one in known["spark-pipelines"] if requirement_of(one).name in _READERS}
    return sorted(found)


def _with(instead: Iterable[str], requirements: list[str]) -> list[str]:
    other = {requirement_of(one).name: one for one in instead}
    return [other.get(requirement_of(one).name, one) for one in requirements]


def _uv(*words: str) -> None:
    """Raises Unresolved."""
    uv = Path(sys.executable).with_name("uv")
    done = subprocess.run([uv, *words, "--quiet", "--native-tls"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unresolved((done.stdout + done.stderr).strip())
