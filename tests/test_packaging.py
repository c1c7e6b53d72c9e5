"""The wheel holds every room, nothing else, and needs neither a compiler nor a JVM."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("cli", "coordinator", "metadata", "protocol", "replication", "server", "storage", "testing")


def listed_packages() -> set[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return set(settings["tool"]["setuptools"]["packages"])


def packages_on_disk() -> set[str]:
    folders = [folder.parent for room in ROOMS for folder in (ROOT / room).rglob("__init__.py")]
    return {"odradek"} | {".".join(("odradek", *folder.relative_to(ROOT).parts)) for folder in folders}


def test_the_list_of_packages_is_complete() -> None:
    assert listed_packages() == packages_on_disk()


def test_every_folder_of_a_room_is_a_package() -> None:
    folders = {file.parent for room in ROOMS for file in (ROOT / room).rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in tracked.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_is_pure_python_and_holds_only_the_package(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if not name.split("/")[0].endswith(".dist-info")} == {"odradek"}
    assert "odradek/py.typed" in names
    assert not [name for name in names if name.startswith(("odradek/tests/", "odradek/benchmarks/"))]


def test_the_installed_wheel_starts_a_broker_that_a_client_can_use(wheel: Path, tmp_path: Path) -> None:
    """Installed in an environment of its own: only what the package itself asks for is there."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=240)
    program = (
        "import odradek, socket\n"
        "with odradek.Broker() as broker:\n"
        "    host, port = broker.bootstrap_servers.rsplit(':', 1)\n"
        "    socket.create_connection((host, int(port))).close()\n"
        "    print('served')\n"
    )
    done = subprocess.run([str(python), "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "served\n", done.stderr
