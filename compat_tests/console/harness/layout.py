"""Faults of a page's layout, measured in the browser: texts that overlap, leave their box, or break within a word."""

from __future__ import annotations

from pathlib import Path

from compat_tests.console.browser import Browser

#: Texts are boxes of lines, cut to what ancestors show of them. Boxes of one element's texts may touch.
_FAULTS = Path(__file__).with_name("layout.js").read_text()


def faults_of_layout(browser: Browser) -> list[str]:
    found: list[str] = browser.driver.execute_script(_FAULTS)
    return found
