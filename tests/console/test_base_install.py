"""The console and the base install: one error line without the extra, no imports by a broker, no build step of pages.

The files in the wheel: tests/test_packaging.py.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from odradek.cli.main import main

CONSOLE = Path(__file__).resolve().parents[2] / "console"
EXTRAS = ("starlette", "uvicorn", "jinja2", "itsdangerous")


@pytest.mark.usefixtures("processes")
def test_console_without_its_extra_names_it_in_one_line() -> None:
    program = f"import sys; sys.modules |= dict.fromkeys({EXTRAS}); from odradek.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "console"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "pip install 'odradek[console] @ file://" in done.stderr


@pytest.mark.usefixtures("processes")
def test_start_imports_no_part_of_the_console() -> None:
    program = (
        "import sys; from odradek.cli.main import parser; parser(); import odradek.cli.foreground, odradek.server.broker;"
        f"print([name for name in sys.modules if name.split('.')[0] in {EXTRAS} or name.startswith('odradek.console')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_start_with_console_needs_a_listener_without_credentials(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    secured = (
        "--override",
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "--override",
        "inter.broker.listener.name=SASL_PLAINTEXT",
    )
    assert main(["start", "--console", "0", "--data-dir", str(tmp_path), *secured]) == 2
    assert "--command-config" in capsys.readouterr().err


def test_pages_and_styles_name_no_other_host() -> None:
    texts = [file.read_text(encoding="utf-8") for file in (CONSOLE / "templates").iterdir()]
    texts += [
        (CONSOLE / "static" / name).read_text(encoding="utf-8") for name in ("console.css", "console.js", "charts.js")
    ]
    assert not [text for text in texts if "http://" in text or "https://" in text]


def test_pages_need_no_build_step() -> None:
    """The scripts and styles that pages load are the files of the repository."""
    loaded = set()
    for file in (CONSOLE / "templates").iterdir():
        loaded |= set(re.findall(r'(?:src|href)="/static/([^"]+)"', file.read_text(encoding="utf-8")))
    assert {"console.js", "charts.js", "htmx.min.js", "uplot.min.js", "console.css"} <= loaded
    assert [name for name in loaded if not (CONSOLE / "static" / name).is_file()] == []
