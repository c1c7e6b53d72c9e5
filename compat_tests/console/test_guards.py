"""Logins, roles, read-only mode, forged requests and foreign names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cli.commands import odradek_command
from compat_tests.console.browser import Browser
from compat_tests.console.process import ConsoleProcess, Visitor


@pytest.fixture(scope="module")
def guarded(console_three: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A console with logins."""
    directory = tmp_path_factory.mktemp("guarded")
    users = directory / "users"
    for name, role, password in (("alice", "admin", "correct horse"), ("bob", "viewer", "battery staple")):
        words = ("console", "--users", str(users), "--add-user", name, "--role", role)
        assert odradek_command(*words, stdin=f"{password}\n").status == 0
    assert users.stat().st_mode & 0o777 == 0o600 and "horse" not in users.read_text()
    made = ConsoleProcess(console_three, directory, "--users", str(users))
    yield made
    made.stop()


def audited(console: ConsoleProcess) -> list[dict[str, str]]:
    return [json.loads(line) for line in console.audit_file.read_text().splitlines()]


def logged_in(console: ConsoleProcess, name: str, password: str) -> Visitor:
    visitor = Visitor(console.address)
    visitor.post("/login", "/login", name=name, password=password)
    assert visitor.status == 200
    return visitor


def test_login_is_required_and_ends_with_logout(guarded: ConsoleProcess, driver: object) -> None:
    browser = Browser(driver, guarded.address)  # type: ignore[arg-type]
    browser.size(1100, 760)  # a phone shows no name
    browser.open("/topics")
    browser.await_true(lambda: browser.path == "/login")
    assert browser.violations() == []
    browser.find("#name").send_keys("alice")
    browser.find("#password").send_keys("correct horse")
    browser.find("button").click()
    browser.await_text("Log out alice")
    browser.find("header form button").click()
    browser.await_true(lambda: browser.path == "/login")
    browser.open("/topics/orders/messages")
    browser.await_true(lambda: browser.path == "/login")


def test_viewer_sees_no_forms_and_changes_nothing(guarded: ConsoleProcess) -> None:
    visitor = logged_in(guarded, "bob", "battery staple")
    assert "Create a topic" not in visitor.get("/topics")
    visitor.post("/topics", "/", name="forbidden")
    assert visitor.status == 403
    assert audited(guarded)[-1]["outcome"].startswith("refused: User bob has read-only access")
    assert "Create a topic" in logged_in(guarded, "alice", "correct horse").get("/topics")


def test_editor_changes_the_topics_of_a_pattern_alone(guarded: ConsoleProcess, tmp_path: Path) -> None:
    users = next(guarded.audit_file.parent.glob("users"))
    words = ("console", "--users", str(users), "--add-user", "carol", "--role", "editor=shop.*,billing")
    assert odradek_command(*words, stdin="correct horse\n").status == 0
    visitor = logged_in(guarded, "carol", "correct horse")
    assert "Topic shop.cart was created" in visitor.post("/topics", "/topics", name="shop.cart")
    assert "Written to shop.cart-0" in visitor.post("/topics/shop.cart/messages", "/topics", value="1")
    assert "Write a record" in visitor.get("/topics/shop.cart/messages")
    assert "Write a record" not in visitor.get("/topics/orders/messages")
    assert "Create an ACL" not in visitor.get("/access")
    for path, fields in (
        ("/topics", {"name": "other"}),
        ("/topics", {"name": "shop"}),
        ("/topics/orders/messages", {"value": "1", "topic": "shop.cart"}),
        ("/topics/orders/delete", {"confirm": "orders", "topic": "billing"}),
        ("/groups/billing/delete", {"confirm": "billing"}),
        ("/access/users", {"user": "mallory", "password": "correct horse", "mechanism": "SCRAM-SHA-256"}),
    ):
        visitor.post(path, "/topics", **fields)
        assert visitor.status == 403, path
    refused = odradek_command(*words[:-1], "editor=a:b", stdin="correct horse\n")
    assert refused.status == 2 and "--role must be" in refused.err


def test_wrong_passwords_are_limited_and_noted(console_three: str, tmp_path: Path) -> None:
    users = tmp_path / "users"
    odradek_command("console", "--users", str(users), "--add-user", "carol", stdin="long enough\n")
    console = ConsoleProcess(console_three, tmp_path, "--users", str(users))
    try:
        visitor = Visitor(console.address)
        seen = []
        for _ in range(6):
            visitor.post("/login", "/login", name="carol", password="guess")
            seen.append(visitor.status)
        assert seen == [401] * 5 + [429]
        assert [one["outcome"] for one in audited(console)] == ["failed"] * 5 + ["refused: too many failures"]
    finally:
        console.stop()


def test_form_without_the_token_of_its_session_is_refused(console: ConsoleProcess) -> None:
    visitor = Visitor(console.address)
    for token in ("", "invented", Visitor(console.address).token("/access")):
        visitor.get("/")
        visitor.post("/topics", _token=token, name="forged")
        assert visitor.status == 403
    assert "forged" not in visitor.await_text("/topics", "orders")


def test_read_only_console_changes_nothing(console_three: str, tmp_path: Path) -> None:
    console = ConsoleProcess(console_three, tmp_path, "--read-only")
    try:
        visitor = Visitor(console.address)
        assert "Create a topic" not in visitor.await_text("/topics", "orders")
        visitor.post("/topics/orders/delete", _token="any", confirm="orders")
        assert visitor.status == 403
        assert audited(console)[-1]["outcome"] == "refused: The console is read-only."
    finally:
        console.stop()


def test_foreign_names_are_refused_without_logins(console: ConsoleProcess) -> None:
    visitor = Visitor(console.address)
    visitor.get("/", Host="rebound.example")
    assert visitor.status == 421
    visitor.get("/", Host="localhost:80")
    assert visitor.status == 200
    assert "default-src 'none'" in visitor.headers["Content-Security-Policy"]


def test_console_off_loopback_requires_users(console_three: str) -> None:
    done = odradek_command("console", "--host", "0.0.0.0", "--port", "0", "-b", console_three)
    assert done.status == 2 and "--users" in done.err and done.err.count("\n") == 1


def test_taken_port_is_one_line(console: ConsoleProcess, console_three: str) -> None:
    port = console.address.rpartition(":")[2]
    done = odradek_command("console", "--port", port, "-b", console_three)
    assert done.status == 1 and "--port" in done.err and done.err.count("\n") == 1
