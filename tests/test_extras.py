"""The command that installs an extra repeats how the package was installed, and needs no index that has its name."""

from __future__ import annotations

import json
import subprocess
import sys
from email.message import Message
from importlib import metadata

import pytest
from odradek import extras
from odradek.extras import install_command

REQUIRES = ["construct>=2", "typer<1; extra == 'cli'", 'rich>=1 ; extra == "cli"', "odradek[cli]; extra == 'top'"]


class Installed:
    """A distribution with the requirements above, and the note of pip."""

    requires = REQUIRES

    def __init__(self, noted: dict[str, object] | None) -> None:
        self._noted = noted

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self._noted is None else json.dumps(self._noted)


@pytest.mark.parametrize(
    ("noted", "expected"),
    [
        (
            {"url": "file:///src/odradek", "dir_info": {"editable": True}},
            "pip install 'odradek[cli] @ file:///src/odradek'",
        ),
        ({"url": "file:///d/odradek.whl", "archive_info": {}}, "pip install 'odradek[cli] @ file:///d/odradek.whl'"),
        (
            {"url": "https://h/o.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'odradek[cli] @ git+https://h/o.git@abc'",
        ),
        (None, "pip install 'rich>=1' 'typer<1' (the packages of odradek[cli])"),
    ],
)
def test_command_is_of_the_installation(
    noted: dict[str, object] | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "_installed", lambda: [Installed(None), Installed(noted)])
    assert install_command("cli") == expected


def test_extra_of_extras_has_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_installed", lambda: [Installed(None)])
    assert install_command("top") == "pip install 'rich>=1' 'typer<1' (the packages of odradek[top])"


def test_every_extra_of_the_package_has_packages() -> None:
    requires = metadata.distribution("odradek").requires or []
    names = Message.get_all(metadata.metadata("odradek"), "Provides-Extra") or []  # type: ignore[arg-type]
    assert len(names) > 8
    assert [name for name in names if not extras._packages(requires, name)] == []


@pytest.mark.usefixtures("processes")
def test_server_is_imported_without_the_metadata_of_packages() -> None:
    program = "import sys, odradek.server.broker; print({'importlib.metadata', 'email', 'csv'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
