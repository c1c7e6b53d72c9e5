"""Pages of schemas of a registry, of connectors of Kafka Connect, and of the balance of brokers."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from odradek.testing.registry.server import SchemaRegistry

from compat_tests.cli.commands import odradek_command
from compat_tests.console.browser import Browser
from compat_tests.console.harness.connect_worker import TRACE, ConnectWorker
from compat_tests.console.process import ConsoleProcess, Visitor

_FIRST = {"type": "record", "name": "Parcel", "fields": [{"name": "id", "type": "long"}]}
_SECOND = {**_FIRST, "fields": [*_FIRST["fields"], {"name": "weight", "type": "int", "default": 0}]}


@pytest.fixture
def parcels(console_three: str, console_registry: SchemaRegistry) -> str:
    """A topic, whose values have a schema of two versions."""
    done = odradek_command("topic", "create", "registered", "--if-not-exists", "-b", console_three)
    assert done.status == 0
    for schema in (_FIRST, _SECOND):
        body = json.dumps({"schema": json.dumps(schema)}).encode()
        url = f"{console_registry.url}/subjects/registered-value/versions"
        urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})).close()
    return "/schemas/registered-value"


def test_subject_shows_versions_differences_and_its_topic(browser: Browser, parcels: str) -> None:
    browser.open("/schemas")
    browser.await_true(lambda: browser.all(f"a[href='{parcels}']") or browser.driver.refresh())
    browser.find(f"a[href='{parcels}']").click()
    browser.await_text("Differences from version 1 to 2")
    added = [one.text for one in browser.all(".diff .added")]
    assert any('"weight"' in one for one in added) and not any('"id"' in one for one in added)
    browser.await_true(lambda: browser.all("#strip a[href='/topics/registered/messages']") or browser.driver.refresh())
    assert "BACKWARD, the default" in browser.find("#strip").text
    assert browser.errors() == [] and browser.violations() == []


def test_version_is_registered_and_compatibility_set(browser: Browser, parcels: str) -> None:
    browser.open(parcels)
    browser.send("Set compatibility", level="NONE")
    browser.await_text("The compatibility of registered-value is NONE.")
    browser.send("Register a version", schema='{"type": "string"}')
    browser.await_text("The schema was registered under registered-value")
    assert "Newest version\n3" in browser.find("#strip").text


def test_registry_that_does_not_respond_is_named_at_once(console_three: str, tmp_path: Path) -> None:
    console = ConsoleProcess(console_three, tmp_path, "--schema-registry", "http://127.0.0.1:1")
    try:
        visitor = Visitor(console.address)
        for _ in range(2):
            assert "no response from the schema registry" in visitor.get("/schemas") and visitor.status == 503
    finally:
        console.stop()


def test_connectors_are_listed_paused_and_restarted(browser: Browser, console_connect: ConnectWorker) -> None:
    failed = next(name for name, state in console_connect.states.items() if state == "FAILED")
    browser.open("/connect")
    browser.await_text("0 of 2 running, 2 failed")
    browser.confirm("form[action='/connect/orders-to-s3/pause'] button")
    browser.await_text("The connector orders-to-s3 was paused.")
    assert console_connect.states["orders-to-s3"] == "PAUSED"
    browser.confirm("form[action='/connect/orders-to-s3/resume'] button")
    browser.await_text("The connector orders-to-s3 was resumed.")
    browser.open("/connect/orders-to-s3")
    browser.await_text("aws.secret.access.key")
    assert "hunter2" not in browser.driver.page_source
    visitor = Visitor(browser.address)
    visitor.post(f"/connect/{failed.replace('/', '%252F')}/restart", "/connect")
    assert console_connect.restarts == [failed]


def test_errors_of_connectors_are_hidden_where_fields_are_masked(
    console: ConsoleProcess, console_three: str, console_connect: ConnectWorker, tmp_path: Path
) -> None:
    """They may have contents of records."""
    failed = next(iter(set(console_connect.states) - {"orders-to-s3"}))
    console_connect.states[failed] = "FAILED"
    address = f"/connect/{failed.replace('/', '%252F')}"
    words = TRACE.partition("\n")[0]
    masked = Visitor(console.address).get(address)
    assert words not in masked and "The errors are not shown" in masked
    plain = ConsoleProcess(console_three, tmp_path, "--connect", console_connect.url)
    try:
        assert words in Visitor(plain.address).get(address)
    finally:
        plain.stop()


def test_balance_shows_a_plan_starts_it_and_shows_its_progress(browser: Browser, console_three: str) -> None:
    words = ("topic", "create", "lopsided", "--partitions", "6", "--replicas", "1", "-b", console_three)
    assert odradek_command(*words).status == 0
    plan = {"version": 1, "partitions": [{"topic": "lopsided", "partition": n, "replicas": [1]} for n in range(6)]}
    file = Path(browser.driver.capabilities["chrome"]["userDataDir"]) / "plan.json"
    file.write_text(json.dumps(plan))
    assert odradek_command("reassign", "run", str(file), "-b", console_three).status == 0
    browser.open("/brokers/balance")
    browser.await_true(lambda: browser.all("[data-opens='do-start-the-plan']") or browser.driver.refresh())
    assert "lopsided" in browser.text and browser.all("svg.share") and browser.violations() == []
    browser.send("Move replicas of")
    browser.await_text("to new replicas")
    browser.await_true(lambda: "no move would even it out" in browser.text or browser.driver.refresh())
    client = AdminClient({"bootstrap.servers": console_three})
    found = client.list_topics("lopsided", timeout=30).topics["lopsided"].partitions
    assert {len([1 for one in found.values() if broker in one.replicas]) for broker in (1, 2, 3)} != {0, 6}
    assert browser.errors() == []
