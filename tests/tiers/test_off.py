"""Tiered storage that is off costs nothing: no process imports it."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Modules that a broker, the command line, the console and the test kit import at their start.
_ROOTS = ("odradek.server.broker", "odradek.cli.main", "odradek.console.command", "odradek.testing")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("root", _ROOTS)
def test_start_imports_nothing_of_tiered_storage(root: str) -> None:
    code = f"import sys, {root}; print([name for name in sys.modules if 'tiers' in name or name == 'obstore'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


@pytest.mark.usefixtures("processes")
def test_folder_store_needs_no_package_of_the_extra() -> None:
    code = (
        "import sys; sys.modules['obstore'] = None\n"
        "from odradek.tiers import indexes, leader_tasks, lineage, metadata_topic, reading\n"
        "from odradek.tiers.named_store import make_store\n"
        "from odradek.tiers.store import InvalidStore\n"
        "import tempfile\n"
        "make_store('folder', {'dir': tempfile.mkdtemp()})\n"
        "try:\n"
        "    make_store('objects', {'url': 's3://x'})\n"
        "except InvalidStore as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "obstore" in done.stdout
