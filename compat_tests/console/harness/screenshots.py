"""Pictures of the guide and the tour. `ODRADEK_SCREENSHOTS=docs/images` writes them to the guide's directory."""

from __future__ import annotations

import os
from pathlib import Path

from compat_tests.console.browser import Browser

MOST_BYTES = 300_000


def take_screenshot(browser: Browser, directory: Path, name: str) -> None:
    folder = Path(os.environ.get("ODRADEK_SCREENSHOTS", directory))
    folder.mkdir(exist_ok=True)
    file = folder / name
    assert browser.driver.save_screenshot(str(file))
    assert 5_000 < file.stat().st_size < MOST_BYTES
