"""Every page in Chromium: its content, in light and dark, on a phone, by keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from compat_tests.cli.commands import odradek_command
from compat_tests.console.browser import Browser
from compat_tests.console.harness.pages import PAGES
from compat_tests.console.harness.screenshots import take_screenshot

#: Screenshots of the guide and the tour: file, page, scheme, a script that shows more, and words of the result.
SCREENSHOTS = (
    ("console-overview.png", "/", "light", "", "Busiest topics"),
    ("console-topics.png", "/topics", "light", "", "Newest record"),
    ("console-group.png", "/groups/billing", "light", "", "Committed"),
    ("console-balance.png", "/brokers/balance", "dark", "", "Brokers before and after"),
    ("console-connect.png", "/connect", "light", "", "orders-to-s3"),
    ("console-access.png", "/access", "light", "", "ACLs"),
    (
        "console-change.png",
        "/topics/orders/configuration",
        "light",
        "document.querySelector('.row-form select').value = 'compact';"
        "document.querySelector('.row-form button').click()",
        "What changes",
    ),
    (
        "console-messages.png",
        "/topics/orders/messages?from=beginning&limit=12&column=id&column=total",
        "dark",
        "",
        "total",
    ),
    (
        "console-record.png",
        "/topics/orders/messages?order=oldest&limit=12",
        "light",
        "document.querySelectorAll('.toggle')[1].click()",
        "Value is",
    ),
    ("console-topic.png", "/topics/orders/partitions", "light", "", "Bytes of all their replicas"),
    (
        "console-configs.png",
        "/topics/orders/configuration",
        "light",
        "",
        "Reads as",
    ),
)


SHORT = (
    "console-overview.png",
    "console-messages.png",
    "console-connect.png",
    "console-access.png",
    "console-topics.png",
)


@pytest.mark.parametrize("path", PAGES)
def test_page_shows_its_words_and_meets_wcag_aa(browser: Browser, path: str) -> None:
    browser.open(path)
    browser.await_text(PAGES[path])
    assert browser.violations() == []
    assert browser.errors() == []


@pytest.mark.parametrize("path", PAGES)
def test_page_meets_wcag_aa_in_the_dark(browser: Browser, path: str) -> None:
    browser.scheme("dark")
    browser.open(path)
    browser.await_text(PAGES[path])
    assert browser.violations() == []


@pytest.mark.parametrize("path", ["/", "/topics/orders/configuration", "/topics/orders/messages?limit=5"])
def test_page_fits_a_phone(browser: Browser, path: str) -> None:
    browser.size(390, 800)
    browser.open(path)
    browser.await_text(PAGES[path])
    assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= 390


def test_keys_open_pages_and_the_search(browser: Browser) -> None:
    browser.open("/")
    body = browser.find("body")
    body.send_keys("g", "t")
    browser.await_true(lambda: browser.path == "/topics")
    browser.find("body").send_keys("/")
    focused = browser.driver.switch_to.active_element
    assert focused.get_attribute("name") == "q"
    focused.send_keys("order", Keys.ENTER)
    browser.await_true(lambda: "q=order" in browser.path)
    browser.await_text("orders")
    browser.find("body").send_keys("?")
    browser.await_true(lambda: browser.find("#keys").is_displayed())
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    browser.await_true(lambda: not browser.find("#keys").is_displayed())


def test_theme_button_keeps_the_choice(browser: Browser) -> None:
    browser.open("/")
    browser.find("#theme").click()
    browser.open("/topics")
    assert browser.find("html").get_attribute("data-theme") == "dark"
    browser.find("#theme").click()
    assert browser.find("html").get_attribute("data-theme") == "light"
    browser.driver.execute_script("localStorage.clear()")


def test_overview_is_live(browser: Browser, console_three: str) -> None:
    browser.open("/")
    browser.await_text("Busiest topics")

    def has_grown() -> bool:
        assert odradek_command("produce", "orders", "--create", "-b", console_three, stdin="live\n" * 500).status == 0
        return any("orders" in one.text for one in browser.all("#live table"))

    browser.await_true(has_grown)
    assert "records/s" in browser.text


#: Puts the focus on the first link of the live parts while a response for them is on its way. Returns, when the response has
#: come, whether the link still has it.
_FOCUS_DURING_A_RESPONSE = """
const live = document.getElementById("live"), done = arguments[arguments.length - 1];
let link;
live.addEventListener("htmx:beforeSend", () => {
  link = live.querySelector("a");
  link.dataset.held = "yes";
  link.focus();
}, { once: true });
live.addEventListener("htmx:afterRequest", (event) => setTimeout(
  () => done([event.detail.xhr.status, live.contains(link), document.activeElement === link])), { once: true });
"""


def test_focus_stays_in_the_live_parts_that_a_response_would_replace(browser: Browser) -> None:
    browser.open("/topics")
    browser.await_text("orders")
    driver = browser.driver
    driver.execute_script("document.activeElement.blur()")
    driver.set_script_timeout(30)
    assert driver.execute_async_script(_FOCUS_DURING_A_RESPONSE) == [200, True, True]
    driver.execute_script("document.activeElement.blur()")
    browser.await_true(lambda: not browser.all("#live a[data-held]"))


def test_tail_shows_new_records(browser: Browser, console_three: str) -> None:
    browser.open("/topics/orders/messages")
    browser.find("a[href*='tail=new']").click()
    browser.await_text("New records appear")
    odradek_command("produce", "orders", "--create", "-b", console_three, stdin='{"tail": "first"}\n')
    browser.await_true(lambda: any("first" in row.text for row in browser.all("#tail tr")))
    odradek_command("produce", "orders", "--create", "-b", console_three, stdin='{"tail": "second"}\n')
    browser.await_true(lambda: "second" in browser.find("#tail tr").text)


@pytest.mark.parametrize(("name", "path", "scheme", "script", "words"), SCREENSHOTS)
def test_screenshots_of_the_guide_are_made(
    browser: Browser, tmp_path: Path, name: str, path: str, scheme: str, script: str, words: str
) -> None:
    browser.size(1100, 620 if name in SHORT else 760)
    browser.scheme(scheme)
    browser.open(path)
    if path in ("/", "/topics/orders/partitions"):  # the chart has a line
        browser.await_true(lambda: browser.chart_points() > 3)
    browser.driver.execute_script(script)
    browser.await_text(words)
    take_screenshot(browser, tmp_path, name)
    assert browser.errors() == [] and browser.violations() == []
