"""Debian's Chromium, driven by Selenium, and axe-core, which checks a page against WCAG 2 A and AA."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from axe_core_python.base import AXE_SCRIPT
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from compat_tests.console.process import DEADLINE_S, POLL_S
from compat_tests.needed_tools import needed
from compat_tests.stopwatch import Stopwatch

T = TypeVar("T")
#: Elements of a page that Tab passes at most.
MOST_TABS = 400
_SHIFT = 8
#: Whether the element is before the one with the focus, or without one in the second half of the page.
_IS_BEHIND = """
const active = document.activeElement, wanted = arguments[0];
if (active !== document.body) return Boolean(active.compareDocumentPosition(wanted) & Node.DOCUMENT_POSITION_PRECEDING);
return wanted.getBoundingClientRect().top + scrollY > document.documentElement.scrollHeight / 2;
"""
#: The fields of the rows that have a cell with this text. One script: a live part may be replaced between two calls.
_FIELDS_OF_ROWS = """
return [...document.querySelectorAll('main tbody tr')]
    .filter(row => [...row.querySelectorAll('td')].some(cell => cell.textContent === arguments[0]))
    .map(row => row.querySelector('.row-form select, .row-form input[type=text]'));
"""
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars")
_AXE = (
    "const done = arguments[arguments.length - 1];"
    "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa'], resultTypes: ['violations']})"
    ".then(found => done(found.violations), error => done(String(error)));"
)


def chromium() -> webdriver.Chrome:
    binary, driver = needed("chromium"), needed("chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for one in _OPTIONS:
        options.add_argument(one)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(driver))


class Browser:
    """Pages of one console in Chromium."""

    def __init__(self, driver: webdriver.Chrome, address: str) -> None:
        self.driver = driver
        self.address = address
        #: Seconds from each press of a form's button to the next text that a test waited for.
        self.responses_s: list[float] = []
        self._since_enter: Stopwatch | None = None

    def open(self, path: str) -> None:
        self.driver.get(self.address + path)

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def scheme(self, name: str) -> None:
        """Sets the color scheme of the viewer's system: "dark" or "light"."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    @property
    def text(self) -> str:
        """The text of the page; nothing while a document has just begun to load."""
        return str(self.driver.execute_script("return document.body?.innerText ?? ''"))

    @property
    def path(self) -> str:
        return self.driver.current_url.removeprefix(self.address)

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def await_true(self, holds: Callable[[], T], deadline_s: float = DEADLINE_S) -> T:
        deadline = time.monotonic() + deadline_s
        while True:
            try:
                if found := holds():
                    return found
            except StaleElementReferenceException:
                pass  # a live part was replaced meanwhile
            assert time.monotonic() < deadline, self.text
            time.sleep(POLL_S)

    def steady(self, step: Callable[[], T]) -> T:
        """Returns the result of a step of several calls. Repeats it when a live part was replaced between them."""
        return self.await_true(lambda: (step(),))[0]

    def await_text(self, text: str, deadline_s: float = DEADLINE_S) -> None:
        self.await_true(lambda: text in self.text, deadline_s)
        if self._since_enter is not None:
            self.responses_s.append(self._since_enter.seconds)
            self._since_enter = None

    def send(self, title: str, **fields: str) -> None:
        """Opens the dialog with the title, fills its form in and presses its button, by keyboard alone."""
        (form,) = self.steady(
            lambda: [one for one in self.all("main dialog") if title in str(one.get_attribute("textContent"))]
        )
        if not form.get_attribute("open"):
            self.tab_to(self.find(f"[data-opens='{form.get_attribute('id')}']"))
            self.press(Keys.ENTER)
        for name, value in fields.items():
            field = form.find_element(By.NAME, name)
            self.tab_to(field)
            if field.tag_name == "select":
                while field.get_attribute("value") != value:
                    before = field.get_attribute("value")
                    self.press(value[0])
                    assert field.get_attribute("value") != before, (name, value)
            else:
                self.press(Keys.CONTROL + "a", Keys.BACKSPACE, value)
        self.tab_to(form.find_element(By.CSS_SELECTOR, ".answers button"))
        self._enter()

    def set_row(self, row: str, value: str) -> None:
        """Types a value into the form of the row with the text, and sends it, by keyboard alone."""
        field = self.row_field(row)
        self.tab_to(field)
        self.press(*([Keys.HOME, value] if field.tag_name == "select" else [Keys.CONTROL + "a", Keys.BACKSPACE, value]))
        self.press(Keys.TAB, Keys.ENTER)
        self._accept()

    def row_field(self, row: str) -> WebElement:
        (found,) = self.driver.execute_script(_FIELDS_OF_ROWS, row)
        assert isinstance(found, WebElement), found
        return found

    def press(self, *keys: str) -> None:
        for one in keys:
            self.driver.switch_to.active_element.send_keys(one)

    def tab_to(self, wanted: WebElement) -> None:
        """Presses Tab, or Shift and Tab where that is shorter, until the element has the focus and is seen to have it."""
        modifiers = _SHIFT if self.driver.execute_script(_IS_BEHIND, wanted) else 0
        for _ in range(MOST_TABS):
            if self.driver.execute_script("return document.activeElement === arguments[0]", wanted):
                assert wanted.value_of_css_property("outline-style") != "none", f"{wanted.tag_name} shows no focus"
                return
            for kind in ("rawKeyDown", "keyUp"):
                event = {"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9, "modifiers": modifiers}
                self.driver.execute_cdp_cmd("Input.dispatchKeyEvent", event)
        raise AssertionError(f"Tab does not reach {str(wanted.get_attribute('outerHTML'))[:200]}")

    def press_button(self, selector: str) -> None:
        """Presses a button by keyboard alone. Pauses the page before: a live part with the button would be replaced."""
        self.pause()
        self.tab_to(self.find(selector))
        self._enter()

    def _enter(self) -> None:
        self._since_enter = Stopwatch()
        self.press(Keys.ENTER)

    def confirm(self, selector: str) -> None:
        """Presses a button with a confirmation dialog, and accepts it."""
        self.press_button(selector)
        self._accept()

    def _accept(self) -> None:
        """Presses the button of the dialog that shows the change; the button has the focus."""
        button = self.await_true(lambda: [one for one in self.all("#confirm button[value=yes]") if one.is_displayed()])[
            0
        ]
        self.tab_to(button)
        self._enter()

    def pause(self) -> None:
        """Stops the live figures by their key: elements of the page stay the same."""
        self.find("body").send_keys("p")
        self.await_true(lambda: not self.all(".htmx-request"))

    def chart_points(self) -> int:
        """Points of the first chart; 0 before the page has one."""
        script = "return document.querySelector('.chart')?.dataset.times.split(' ').filter(Boolean).length ?? 0"
        return int(self.driver.execute_script(script))

    def violations(self) -> list[str]:
        """Returns the rules of axe-core that the page breaks, with the first element for each."""
        self.driver.execute_script(AXE_SCRIPT)
        found: Any = self.driver.execute_async_script(_AXE)
        assert isinstance(found, list), found
        return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]

    def errors(self) -> list[str]:
        """Returns errors of the page's scripts and of its Content-Security-Policy since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
