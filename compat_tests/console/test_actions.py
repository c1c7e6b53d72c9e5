"""Changes by forms: in Chromium against three nodes, and without a browser against Apache Kafka, too."""

from __future__ import annotations

import json
import re
import threading

import pytest

from compat_tests.cli.commands import odradek_command
from compat_tests.console.browser import Browser
from compat_tests.console.process import ConsoleProcess, Visitor

_KEEPS_READING = 60


def test_topic_is_created_changed_and_deleted_in_the_browser(browser: Browser, console: ConsoleProcess) -> None:
    browser.open("/topics")
    browser.send("Create a topic", name="parcels", partitions="2", replicas="3", configs="retention.ms=3600000")
    browser.await_text("Topic parcels was created")
    assert browser.path == "/topics/parcels/messages"
    browser.open("/topics/parcels/configuration")
    browser.await_text("1.0 h")
    browser.set_row("cleanup.policy", "compact")
    browser.await_text("cleanup.policy of parcels was set")
    browser.open("/topics/parcels/partitions")
    browser.send("Add partitions", partitions="4")
    browser.await_text("parcels: 4 partitions")
    browser.send("Delete the topic", confirm="wrong")
    browser.await_text("type parcels to confirm")
    browser.send("Delete the topic", confirm="parcels")
    browser.await_text("Topic parcels was deleted")
    browser.await_true(lambda: "parcels" not in browser.find("#live").text)
    noted = [json.loads(line) for line in console.audit_file.read_text().splitlines()]
    of_topic = [(one["action"], one["outcome"][:6]) for one in noted if "parcels" in json.dumps(one)]
    assert of_topic == [
        ("topic.create", "done: "), ("topic.config", "done: "), ("topic.alter", "done: "),
        ("topic.delete", "failed"), ("topic.delete", "done: "),
    ]  # fmt: skip


def test_record_is_written_found_and_shown_with_its_neighbours(browser: Browser, console_three: str) -> None:
    odradek_command("topic", "create", "letters-of-may", "--partitions", "1", "-b", console_three)
    odradek_command("produce", "letters-of-may", "-b", console_three, stdin='{"n": 1}\n{"n": 2, "password": "x"}\n')
    browser.open("/topics/letters-of-may/messages")
    browser.send("Write a record", key="k3", value='{"n": 3, "card": {"password": "hunter2"}}', headers="trace=abc")
    browser.await_text("Written to letters-of-may-0 at offset 2.")
    shown = browser.text
    assert "hunter2" not in shown and "trace" in shown and '"n": 2' in shown
    command = browser.find(".copies").get_attribute("textContent")
    assert "odradek consume letters-of-may -p 0 -o 2 --count 1 --output json" in str(command)
    browser.find(".copy").click()
    browser.await_true(lambda: browser.find(".copy").text == "Copied")
    browser.open("/topics/letters-of-may/messages?from=beginning&where=%40.n%20%3E%202")
    browser.await_text("1 shown of 3 read")
    browser.open("/topics/letters-of-may/messages?from=beginning&value=hunter")
    browser.await_text("0 shown of 3 read")
    browser.open("/topics/letters-of-may/messages?from=1&partition=0&limit=1")
    browser.await_text('"n": 2')


#: A slash and a percent sign are parts of a group's name like any other.
@pytest.mark.parametrize("group", ["clerks", "shop/clerks 50%2F"])
def test_group_is_reset_after_a_preview_and_deleted(browser: Browser, console_three: str, group: str) -> None:
    odradek_command("topic", "create", "bills", "--partitions", "1", "--if-not-exists", "-b", console_three)
    odradek_command("produce", "bills", "--create", "-b", console_three, stdin="1\n2\n3\n")
    odradek_command("consume", "bills", "--from-beginning", "--count", "3", "--group", group, "-b", console_three)
    browser.open("/groups")
    browser.await_text(group)
    browser.steady(lambda: next(link for link in browser.all("main a") if link.text == group).click())
    browser.send("Reset offsets", to="1", topic="bills")
    browser.await_text("Nothing has changed yet")
    browser.await_text("-2")
    browser.find("main form[method=post] button").click()
    browser.await_text(f"Set 1 offset of group {group}")
    (lag,) = odradek_command("group", "lag", group, "--output", "jsonl", "-b", console_three).lines
    assert lag["committed"] == 1
    browser.send("Delete the group", confirm=group)
    browser.await_text(f"Group {group} was deleted")


def test_members_and_their_partitions_are_shown(visitor: Visitor) -> None:
    """The group is classic, and its member is reading."""
    from confluent_kafka import Consumer

    visitor.post("/topics", name="watched", partitions="2", replicas="1")
    bootstrap = re.search(r"(127\.0\.0\.1:\d+)", visitor.await_text("/brokers", "127.0.0.1:"))
    assert bootstrap
    consumer = Consumer({"bootstrap.servers": bootstrap[1], "group.id": "watchers", "client.id": "watcher-one"})
    consumer.subscribe(["watched"])
    stopping = threading.Event()

    def read() -> None:
        while not stopping.is_set():
            consumer.poll(0.1)

    reading = threading.Thread(target=read)
    reading.start()
    try:
        visitor.await_text("/groups", "watchers")
        page = visitor.await_text("/groups/watchers", "watched-1")
        assert "watcher-one" in page and "watched-0" in page
        visitor.await_text("/clients", "watcher-one")
    finally:
        stopping.set()
        reading.join(_KEEPS_READING)
        consumer.close()


def test_changes_without_a_browser_on_both_clusters(visitor: Visitor) -> None:
    visitor.post("/topics", name="both", partitions="1", replicas="1")
    visitor.await_text("/topics", "both")
    written = visitor.post("/topics/both/messages", key="k", value='{"text": "the first"}', headers="h=1")
    assert "offset 0" in written
    visitor.post("/topics/both/messages", value='{"text": "the second"}')
    visitor.await_text("/topics/both/messages", "the second")
    assert "deleted" in visitor.post("/topics/both/trim", before="1").lower()
    assert "the first" not in visitor.await_text("/topics/both/messages?from=beginning", "the second")
    assert "were set" in visitor.post("/access/users", user="ada", password="correct horse", mechanism="SCRAM-SHA-256")
    visitor.await_text("/access", "ada")
    assert "was set" in visitor.post("/access/quotas", user="ada", key="producer_byte_rate", quota="1048576")
    visitor.await_text("/access", "1\N{NARROW NO-BREAK SPACE}048\N{NARROW NO-BREAK SPACE}576")
    assert "deleted" in visitor.post("/access/quotas/delete", user="ada", key="producer_byte_rate")
    assert "were deleted" in visitor.post("/access/users/delete", user="ada", mechanism="SCRAM-SHA-256")
    assert "was deleted" in visitor.post("/topics/both/delete", confirm="both")


def test_pages_of_both_clusters_answer(visitor: Visitor) -> None:
    visitor.await_text("/", "Active controller")
    for path in ("/", "/topics", "/groups", "/transactions", "/brokers", "/quorum", "/share", "/access", "/clients"):
        visitor.get(path)
        assert visitor.status == 200, path


def test_open_transaction_is_shown_and_aborted(visitor: Visitor) -> None:
    from confluent_kafka import Producer

    visitor.post("/topics", name="ledger", partitions="1", replicas="1")
    bootstrap = re.search(r"(127\.0\.0\.1:\d+)", visitor.await_text("/brokers", "127.0.0.1:"))
    assert bootstrap
    producer = Producer({"bootstrap.servers": bootstrap[1], "transactional.id": "bookkeeper"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("ledger", b"unfinished")
    producer.flush(30)
    visitor.await_text("/transactions", "Ongoing")
    visitor.await_text("/transactions/hanging?topic=ledger", "of bookkeeper")
    assert "was aborted" in visitor.post("/transactions/abort", id="bookkeeper")
    visitor.await_text("/transactions/hanging?topic=ledger", "No open transaction")
    assert "Ongoing" not in visitor.get("/transactions")
