"""Lists that sort, filter and count; charts with axes, a readout and a range; the header on one line; forms after errors."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from compat_tests.cli.commands import odradek_command
from compat_tests.console.browser import Browser
from compat_tests.console.harness.pages import PAGES
from compat_tests.console.process import ConsoleProcess, Visitor

_TOPICS = {"zebra": 7, "apple": 2, "mango": 5}


@pytest.fixture(scope="module")
def topics(console_three: str) -> None:
    for name, partitions in _TOPICS.items():
        words = ("topic", "create", name, "--partitions", str(partitions), "--if-not-exists", "-b", console_three)
        assert odradek_command(*words).status == 0


def column(browser: Browser, index: int) -> list[str]:
    script = "return [...document.querySelectorAll('#live tbody tr')].map(row => row.cells[arguments[0]].innerText)"
    found: list[str] = browser.driver.execute_script(script, index)
    return found


# ---- lists


@pytest.mark.parametrize("path", PAGES)
def test_every_list_counts_its_rows_and_sorts(browser: Browser, path: str) -> None:
    browser.open(path)
    browser.await_text(PAGES[path])
    browser.steady(lambda: check_lists(browser))


def check_lists(browser: Browser) -> None:
    for section in browser.all("main section.list"):
        rows = section.find_elements(By.CSS_SELECTOR, "tbody tr")
        counts = [one.text for one in section.find_elements(By.CSS_SELECTOR, ".count")]
        counts += [one.text for one in browser.all(".pages") if section.get_attribute("id") == "list"]
        assert any(str(len(rows)) in one for one in counts), section.get_attribute("id")
        if len(rows) > 1:
            assert section.find_elements(By.CSS_SELECTOR, "th a[href*='sort=']"), section.get_attribute("id")
        if len(rows) >= 5:
            is_filtered = section.find_elements(By.CSS_SELECTOR, ".filter") or browser.all(".search input[name=q]")
            assert is_filtered, section.get_attribute("id")


def test_list_is_sorted_by_keyboard_over_all_pages_and_stays_so_when_it_is_live(
    browser: Browser, console_three: str, topics: None
) -> None:
    browser.open("/topics")
    browser.await_true(lambda: set(_TOPICS) <= set(column(browser, 0)))
    browser.pause()
    browser.tab_to(browser.find("#list th a[href*='Partitions']"))
    browser.press(Keys.ENTER)
    browser.await_true(lambda: browser.all("th[aria-sort=descending]"))
    found = [int(one) for one in column(browser, 7)]
    assert found == sorted(found, reverse=True)
    browser.steady(lambda: browser.find("#list th a[href*='Partitions']").click())
    browser.await_true(lambda: browser.all("th[aria-sort=ascending]"))
    assert odradek_command("topic", "create", "one-more", "--partitions", "9", "-b", console_three).status == 0
    browser.await_true(lambda: "one-more" in column(browser, 0))
    found = [int(one) for one in column(browser, 7)]
    assert found == sorted(found)
    browser.find("input[name=q]").send_keys("mang", Keys.ENTER)
    browser.await_true(lambda: column(browser, 0) == ["mango"])
    assert "sort=list.Partitions" in browser.path and "1-1 of 1 topics" in browser.text


def test_list_is_filtered_while_its_reader_types_and_by_the_link(browser: Browser) -> None:
    browser.open("/topics/orders/configuration")
    field = browser.find("#configs input[type=search]")
    browser.tab_to(field)
    browser.press("retention")
    visible = [one for one in browser.all("#configs tbody tr") if one.is_displayed()]
    assert 0 < len(visible) < 8 and all("retention" in one.text for one in visible)
    browser.press(Keys.ENTER)
    browser.await_true(lambda: "filter-configs=retention" in browser.path)
    assert f"Configs {len(visible)} of " in browser.text
    browser.open("/topics/orders/configuration?filter-configs=nothing-has-this")
    browser.await_text("No row has “nothing-has-this”.")


# ---- charts


@pytest.mark.parametrize("path", ["/", "/topics/orders/partitions", "/groups/billing"])
def test_charts_have_axes_a_readout_and_a_range(browser: Browser, path: str) -> None:
    browser.open(path)
    browser.await_true(lambda: browser.chart_points() > 2)
    browser.pause()
    chart = browser.find(".chart")
    assert len(chart.find_elements(By.CSS_SELECTOR, ".u-axis")) == 2

    def readout() -> str:
        return browser.find(".chart .u-legend").text

    over = browser.find(".chart .u-over")
    ActionChains(browser.driver).move_to_element_with_offset(over, over.size["width"] // 2 - 3, 0).perform()
    browser.await_true(lambda: re.search(r"Time:?\s*\d", readout()))
    ActionChains(browser.driver).move_to_element(browser.find("footer")).perform()
    buttons = browser.all(".chart .ranges button")
    assert [one.text for one in buttons[:3]] == ["5 min", "1 h", "6 h"]
    browser.tab_to(browser.find(".chart .ranges button:nth-child(2)"))
    browser.press(Keys.ENTER)
    browser.await_true(
        lambda: browser.find(".chart .ranges button:nth-child(2)").get_attribute("aria-pressed") == "true"
    )
    assert browser.violations() == [] and browser.errors() == []


def test_chart_is_read_by_keyboard(browser: Browser) -> None:
    browser.open("/")
    browser.await_true(lambda: browser.chart_points() > 2)
    browser.pause()
    browser.tab_to(browser.find(".chart .uplot"))
    browser.press(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    browser.await_true(lambda: re.search(r"Time:?\s*\d", browser.find(".chart .u-legend").text))


def test_range_of_a_chart_outlives_the_live_updates(browser: Browser) -> None:
    browser.open("/")
    browser.await_true(lambda: browser.all(".chart .ranges"))
    browser.steady(lambda: browser.find(".chart .ranges button:nth-child(3)").click())
    browser.driver.execute_script("document.activeElement.blur()")
    before = browser.steady(lambda: browser.find(".chart").get_attribute("data-times"))
    browser.await_true(lambda: browser.find(".chart").get_attribute("data-times") != before)
    pressed = browser.steady(lambda: browser.find(".chart .ranges button[aria-pressed=true]").text)
    assert pressed == "6 h" and len(browser.all(".chart")) == len(browser.all(".chart .uplot"))


def test_chart_of_days_requests_the_points_that_the_page_has_not(browser: Browser) -> None:
    browser.open("/")
    browser.await_true(lambda: browser.chart_points() > 2)
    words = [one.text for one in browser.all(".charts figure:first-child .ranges button")]
    assert words == ["5 min", "1 h", "6 h", "1 d", "7 d"]
    requested = "return performance.getEntriesByType('resource').filter((one) => one.name.includes('/history?')).length"
    assert browser.driver.execute_script(requested) == 0
    browser.steady(lambda: browser.find(".charts figure:first-child .ranges button:nth-child(5)").click())
    browser.await_true(lambda: browser.driver.execute_script(requested) == 1)
    shown = "const plot = charts.get('Throughput').plot; return plot.scales.x.max - plot.scales.x.min"
    assert browser.driver.execute_script(shown) == 7 * 86400
    browser.await_true(lambda: browser.driver.execute_script("return charts.get('Throughput').plot.data[0].length") > 2)
    browser.steady(lambda: browser.find(".charts figure:first-child .ranges button:nth-child(1)").click())
    assert browser.driver.execute_script(shown) == 300
    assert browser.errors() == []


def test_line_of_a_chart_has_a_gap_where_points_are_missing(browser: Browser) -> None:
    browser.open("/")
    script = "return withGaps([0, 60, 120, 900, 960], [1, 2, 3, 4, 5], GAP)"
    assert browser.driver.execute_script(script) == [[0, 60, 120, 510, 900, 960], [1, 2, 3, None, 4, 5]]


def test_chart_without_scripts_is_a_line_with_words(console: ConsoleProcess) -> None:
    page = Visitor(console.address).await_text("/", "now, ")
    assert 'role="img" aria-label="Throughput: ' in page


# ---- the header


@pytest.fixture(scope="module")
def named(console_three: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A console with a login, whose header has the most in it."""
    directory = tmp_path_factory.mktemp("named")
    users = directory / "users"
    words = ("console", "--users", str(users), "--add-user", "alice")
    assert odradek_command(*words, stdin="correct horse\n").status == 0
    made = ConsoleProcess(console_three, directory, "--users", str(users), "--read-only")
    yield made
    made.stop()


def test_header_fits_one_line_at_1100_pixels(driver: object, named: ConsoleProcess) -> None:
    browser = Browser(driver, named.address)  # type: ignore[arg-type]
    browser.size(1100, 800)
    browser.open("/login")
    browser.find("#name").send_keys("alice")
    browser.find("#password").send_keys("correct horse", Keys.ENTER)
    browser.await_text("Log out alice")
    tops = {
        one.location["y"] + one.size["height"] // 2
        for one in browser.all("header > *, .right > *")
        if one.is_displayed()
    }
    assert max(tops) - min(tops) <= 4, tops
    assert browser.find("header").size["height"] < 60
    assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= 1100


# ---- forms


def test_refused_form_keeps_what_was_typed(browser: Browser) -> None:
    browser.open("/topics")
    browser.send("Create a topic", name="bad name!", partitions="4", replicas="3", configs="retention.ms=1")
    browser.await_true(lambda: browser.all(".words.bad[role=status]:not([hidden])"))
    kept = {
        one: browser.find(f"main dialog [name={one}]").get_attribute("value")
        for one in ("name", "partitions", "configs")
    }
    assert kept == {"name": "bad name!", "partitions": "4", "configs": "retention.ms=1"}
    browser.send("Create a topic", name="good-name", replicas="3")
    browser.await_text("Topic good-name was created")
    browser.open("/topics")
    assert browser.find("main dialog [name=name]").get_attribute("value") == ""


def test_refused_form_keeps_no_password_and_its_choices(browser: Browser) -> None:
    browser.open("/access")
    browser.send("Create an ACL", principal="bob", operation="write", host="10.0.0.1")
    browser.await_text("name is missing")
    form = browser.find("form[action='/access/acls']")
    kept = {one: form.find_element(By.NAME, one).get_attribute("value") for one in ("principal", "operation", "host")}
    assert kept == {"principal": "bob", "operation": "write", "host": "10.0.0.1"}
    browser.open("/access")
    browser.driver.execute_script("document.querySelectorAll('[required]').forEach(one => one.required = false)")
    browser.send("Create a user", password="correct horse")
    browser.await_text("user is missing")
    assert "correct horse" not in browser.driver.page_source


def test_refused_preview_keeps_what_was_typed(browser: Browser) -> None:
    browser.open("/groups/billing")
    browser.send("Reset offsets", to="next tuesday", topic="orders")
    browser.await_text("is not a position")
    assert browser.find("main input[name=to]").get_attribute("value") == "next tuesday"
    assert browser.find("main input[name=topic]").get_attribute("value") == "orders"
