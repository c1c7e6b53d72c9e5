"""The tabs of a topic, the filters of its messages as chips, live reading, copies, and dialogs that say what will happen."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.keys import Keys

from compat_tests.cli.commands import odradek_command
from compat_tests.console.browser import Browser

TOPIC = "tabbed"
_TABS = ["Messages", "Partitions", "Groups", "Configuration", "Access"]


@pytest.fixture(scope="module")
def tabbed(console_three: str) -> str:
    lines = "".join(f'k{number}:{{"n": {number}}}\n' for number in range(12))
    for words, given in (
        (("topic", "create", TOPIC, "--partitions", "2"), ""),
        (("produce", TOPIC, "-K", ":", "-H", "trace=t1"), lines),
    ):
        assert odradek_command(*words, "-b", console_three, stdin=given).status == 0
    return f"/topics/{TOPIC}"


def chips(browser: Browser) -> list[str]:
    return [one.text.partition("\n")[0] for one in browser.all(".chip")]


def test_topic_opens_on_its_messages_and_each_tab_has_the_same_head(browser: Browser, tabbed: str) -> None:
    browser.open(tabbed)
    assert browser.path == f"{tabbed}/messages"
    browser.await_true(lambda: "≈" in browser.find("#strip").text or browser.driver.refresh())
    assert [one.text.split()[0] for one in browser.all(".tabs a")] == _TABS
    for name in _TABS:
        next(one for one in browser.all(".tabs a") if one.text.startswith(name)).click()
        browser.await_true(lambda name=name: browser.find(".tabs a[aria-current]").text.startswith(name))  # type: ignore[misc]
        assert "7 d" in browser.find("#strip").text and browser.find(".crumbs").text == "Topics"
        assert len(browser.all(".actions .primary")) <= 1
    assert browser.errors() == []


def test_switcher_shows_the_clusters_state(browser: Browser, tabbed: str) -> None:
    browser.open(tabbed)
    browser.await_true(lambda: "3 brokers, in sync" in browser.find("header").text or browser.driver.refresh())


def test_filters_are_chips_that_are_removed_one_by_one(browser: Browser, tabbed: str) -> None:
    browser.open(f"{tabbed}/messages")
    browser.find("body").send_keys("/")
    focused = browser.driver.switch_to.active_element
    assert focused.get_attribute("name") == "key"  # the key comes first
    focused.send_keys("^k1", Keys.TAB, "n", Keys.ENTER)
    browser.await_text("3 shown of 12 read")
    assert chips(browser) == ["key ^k1", "value n"]
    browser.find(".chip").click()
    browser.await_text("12 shown of 12 read")
    assert chips(browser) == ["value n"]
    browser.open(f"{tabbed}/messages?header=trace%3Dt2")
    browser.await_text("No record matches these filters.")
    browser.find(".empty .next a").click()
    browser.await_text("12 shown of 12 read")


def test_live_reading_keeps_its_filter_and_pauses(browser: Browser, tabbed: str, console_three: str) -> None:
    browser.open(f"{tabbed}/messages?key=wanted")
    next(one for one in browser.all(".actions a") if one.text == "Live").click()
    browser.await_text("New records appear")
    assert chips(browser) == ["key wanted"]
    write = ("produce", TOPIC, "-K", ":", "-b", console_three)
    assert odradek_command(*write, stdin="other:1\nwanted:2\n").status == 0
    browser.await_true(lambda: len(browser.all("#tail > tr")) == 1)
    browser.find(".pause").click()
    assert browser.find(".pause").text == "Resume"
    assert odradek_command(*write, stdin="wanted:3\n").status == 0
    browser.find(".pause").click()
    browser.await_true(lambda: len(browser.all("#tail > tr")) == 2)
    assert browser.errors() == []


def test_row_opens_by_a_click_anywhere_and_by_keys(browser: Browser, tabbed: str) -> None:
    browser.open(f"{tabbed}/messages?key=^k3$")
    browser.await_text("1 shown")
    browser.find("#records-rows td:nth-child(6)").click()
    browser.await_true(lambda: browser.all("tr.detail"))
    copies = [one.text for one in browser.all("tr.detail .copy")]
    assert copies[:3] == ["Copy value", "Copy as JSON", "Copy command"]
    command = str(browser.all("tr.detail .copies pre")[2].get_attribute("textContent"))
    assert command.startswith(f"odradek consume {TOPIC} -p") and " -b 127.0.0.1:" in command
    browser.open(f"{tabbed}/messages?limit=3")
    browser.find("body").send_keys("j", "j")
    browser.press(Keys.ENTER)
    browser.await_true(
        lambda: browser.all("#records-rows tr.opens")[1].find_elements("css selector", "[aria-expanded=true]")
    )


def test_record_of_a_masked_console_is_not_edited(browser: Browser, console_three: str) -> None:
    """The form would write the masks with the record."""
    topic = "written-with-masks"
    assert odradek_command("topic", "create", topic, "-b", console_three).status == 0
    browser.open(f"/topics/{topic}/messages")
    browser.await_text("The topic has no records.")
    browser.send("Write a record", key="k", value='{"password": "hunter2"}')
    browser.await_text(f"Written to {topic}-0 at offset 0.")
    assert not browser.all("#do-edit-and-send-again") and "hunter2" not in browser.driver.page_source


def test_dialog_of_a_config_says_what_changes_and_the_command(browser: Browser, tabbed: str) -> None:
    browser.open(f"{tabbed}/configuration")
    field = browser.row_field("retention.ms")
    browser.tab_to(field)
    browser.press(Keys.CONTROL + "a", Keys.BACKSPACE, "86400000")
    browser.press(Keys.ENTER)
    browser.await_true(lambda: browser.find("#confirm").is_displayed())
    dialog = browser.find("#confirm").text
    assert "Set retention.ms of tabbed" in dialog and "604800000 (7.0 d)" in dialog and "86400000" in dialog
    assert "odradek config set topic tabbed retention.ms=86400000 -b" in dialog
    assert browser.violations() == []
    browser.press(Keys.ESCAPE)
    browser.await_true(lambda: not browser.find("#confirm").is_displayed())
    browser.open(f"{tabbed}/configuration")
    assert browser.row_field("retention.ms").get_attribute("value") == "604800000"  # nothing was sent


def test_dialog_of_a_form_shows_before_after_and_the_command_as_its_reader_types(browser: Browser, tabbed: str) -> None:
    browser.open(f"{tabbed}/partitions")
    browser.find("[data-opens='do-add-partitions']").click()
    browser.find("#do-add-partitions [name=partitions]").send_keys("5")
    words = browser.find("#do-add-partitions").text
    assert "Keys go to other partitions" in words and "Partitions 2 5" in words
    assert "odradek topic alter tabbed --partitions 5 -b" in words and "--replicas" not in words
    assert browser.violations() == []
    browser.find("#do-add-partitions .cancel").click()
    browser.await_true(lambda: not browser.find("#do-add-partitions").is_displayed())
