"""The wheel contains every package and nothing else. tests/docs/test_deployment.py installs it into clean environments."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from odradek.version import __version__

from compat_tests.needed_tools import needed
from tests.release import DESCRIPTION, URLS, copy_tracked, describe
from tests.wheels import ADDRESS, built_wheel

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).resolve().parents[1]
ROOMS = (
    "admin",
    "archive",
    "client",
    "cli",
    "columns",
    "console",
    "coordinator",
    "metadata",
    "protocol",
    "query",
    "records",
    "replication",
    "server",
    "sink",
    "spark",
    "storage",
    "testing",
    "tiers",
)
#: The second top-level package, by which Spark finds the data source.
SPARK_NAME = "pyspark_odradek"


def listed_packages() -> set[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return set(settings["tool"]["setuptools"]["packages"])


def packages_on_disk() -> set[str]:
    folders = [folder.parent for room in ROOMS for folder in (ROOT / room).rglob("__init__.py")]
    return {"odradek", SPARK_NAME} | {".".join(("odradek", *folder.relative_to(ROOT).parts)) for folder in folders}


def test_the_list_of_packages_is_complete() -> None:
    assert listed_packages() == packages_on_disk()


def test_every_folder_of_a_room_is_a_package() -> None:
    folders = {file.parent for room in ROOMS for file in (ROOT / room).rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


@pytest.fixture
def wheel() -> Path:
    return built_wheel()


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def link_targets(description: str) -> list[str]:
    text = re.sub(r"```.*?^```", "", description, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"\]\(([^)\s]+)\)", text)


def test_description_without_a_public_address_has_no_relative_link(tmp_path: Path) -> None:
    copy_tracked(tmp_path)
    describe(tmp_path, "")
    text = (tmp_path / DESCRIPTION).read_text(encoding="utf-8")
    assert [target for target in link_targets(text) if not target.startswith("https://")] == []
    assert "`docs/operations.md`" in text
    settings = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["readme"] == DESCRIPTION and "urls" not in settings["project"]


def test_description_with_a_public_address_links_to_files_of_the_tag(wheel: Path) -> None:
    about = metadata(wheel)
    targets = link_targets(str(about.get_payload()))
    base = f"{ADDRESS}/blob/v{about['Version']}/"
    of_the_project = [target for target in targets if target.startswith(ADDRESS)]
    assert [target for target in targets if not target.startswith("https://")] == []
    assert len(of_the_project) > 10 and f"{base}docs/operations.md" in of_the_project
    of_pictures = base.replace("/blob/", "/raw/")
    paths = [target.removeprefix(base).removeprefix(of_pictures).partition("#")[0] for target in of_the_project]
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert missing == []
    urls = about.get_all("Project-URL") or []
    assert [url.split(", ")[0] for url in urls] == list(URLS)
    assert all(url.split(", ")[1].startswith(ADDRESS) for url in urls)


def test_version_is_the_same_everywhere(wheel: Path) -> None:
    assert metadata(wheel)["Version"] == __version__
    assert f"odradek=={__version__}" in (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def test_the_wheel_holds_the_package_and_its_kernel_only(wheel: Path) -> None:
    needed("gcc")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if not name.split("/")[0].endswith(".dist-info")} == {
        "odradek",
        "odradek_kernel.abi3.so",
        SPARK_NAME,
    }
    assert "odradek/py.typed" in names
    assert not [name for name in names if name.startswith(("odradek/tests/", "odradek/benchmarks/"))]


def test_spark_finds_the_data_source_in_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """By the steps of `pyspark.sql.worker.lookup_data_sources`, without Spark's JVM."""
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = """
import importlib, pkgutil, sys
found = [one.name for one in pkgutil.iter_modules() if one.name.startswith("pyspark_")]
(source,) = [importlib.import_module(name).DefaultSource for name in found]
assert not {"numba", "pyarrow", "kafka"} & sys.modules.keys()
print(found, source.name(), sys.modules[source.__module__].__file__)
"""
    clean = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == f"['{SPARK_NAME}'] odradek {tmp_path}/odradek/spark/source.py", done.stderr


def test_wheel_has_the_consoles_templates_style_scripts_and_licences(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = [file for folder in ("static", "templates") for file in (ROOT / "console" / folder).iterdir()]
    missing = [file.name for file in wanted if f"odradek/console/{file.parent.name}/{file.name}" not in names]
    assert {"htmx-LICENSE.txt", "uplot-LICENSE.txt"} <= {file.name for file in wanted}
    assert len(wanted) >= 12 and missing == []
