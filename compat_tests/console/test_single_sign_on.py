"""Logins by an OpenID Connect issuer: roles, rejected responses, logout; once in Chromium over two sites."""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.console.browser import Browser
from compat_tests.console.issuer import LoginIssuer
from compat_tests.console.process import ConsoleProcess, Visitor
from tests.security.issuer import Issuer


@pytest.fixture(scope="module")
def issuer() -> Iterator[LoginIssuer]:
    made = LoginIssuer()
    yield made
    made.close()


@pytest.fixture(scope="module")
def signed_on(
    issuer: LoginIssuer, console_three: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    """A console with logins by the issuer."""
    directory = tmp_path_factory.mktemp("signed-on")
    (directory / "oidc.properties").write_text(issuer.settings())
    made = ConsoleProcess(console_three, directory, "--oidc", str(directory / "oidc.properties"))
    yield made
    made.stop()


class IssuerVisitor(Visitor):
    """Follows the steps of a login over both sites."""

    def login(self, account: str) -> str:
        """Returns the issuer's login address of the account, without its host."""
        page = self.get("/login/oidc")
        found = re.search(rf'href="([^"]+account={account})"', page)
        assert found, page
        return found[1]

    def visit(self, address: str) -> str:
        """Loads a page of another site."""
        kept, self.address = self.address, ""
        try:
            return self.get(address)
        finally:
            self.address = kept


def audited(console: ConsoleProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in console.audit_file.read_text().splitlines()]


def test_admin_of_the_issuer_changes_topics_and_logs_out(
    signed_on: ConsoleProcess, issuer: LoginIssuer, driver: object
) -> None:
    browser = Browser(driver, signed_on.address)  # type: ignore[arg-type]
    browser.size(1100, 760)  # a phone shows no name
    browser.open("/topics")
    browser.await_true(lambda: browser.path == "/login")
    assert browser.violations() == [] and not browser.all("form")
    browser.find("a.button").click()
    browser.await_text("Issuer")
    browser.find("a[href$='account=olga']").click()
    browser.await_text("Log out olga")
    browser.open("/topics")
    browser.send("Create a topic", name="issued", partitions="1", replicas="1")
    browser.await_text("Topic issued was created")
    noted = audited(signed_on)
    entry = next(one for one in noted if one["action"] == "login")
    assert entry["user"] == "olga" and entry["details"] == {"issuer": issuer.url, "subject": "id-olga"}
    assert (noted[-1]["user"], noted[-1]["action"]) == ("olga", "topic.create")
    browser.find("header form button").click()
    browser.await_text("You are logged out of the console")
    browser.find("main a[href='/login/oidc/end']").click()
    browser.await_text("Logged out of the issuer")
    assert issuer.logouts == 1
    browser.open("/topics")
    browser.await_true(lambda: browser.path == "/login")


def test_viewer_of_the_issuer_changes_nothing(signed_on: ConsoleProcess, issuer: LoginIssuer) -> None:
    visitor = IssuerVisitor(signed_on.address)
    page = visitor.visit(issuer.url + visitor.login("pavel"))
    assert "You are logged in" in page
    cookies = [value for name, value in visitor.headers.items() if name.lower() == "set-cookie"]
    (session,) = [one for one in cookies if one.startswith("odradek_console=")]
    assert "HttpOnly" in session and "samesite=strict" in session.lower()
    page = visitor.get("/topics")
    assert 'title="pavel">Log out' in page and "Create a topic" not in page
    visitor.post("/topics", "/", name="forbidden")
    assert visitor.status == 403


def test_user_without_a_role_is_refused(signed_on: ConsoleProcess, issuer: LoginIssuer) -> None:
    visitor = IssuerVisitor(signed_on.address)
    page = visitor.visit(issuer.url + visitor.login("quentin"))
    assert visitor.status == 403 and "quentin has no role here" in page
    assert "Log out" not in visitor.get("/topics")


def test_responses_that_are_not_of_this_login_are_refused(console_three: str, tmp_path: Path) -> None:
    issuer = LoginIssuer()
    (tmp_path / "oidc.properties").write_text(issuer.settings())
    console = ConsoleProcess(console_three, tmp_path, "--oidc", str(tmp_path / "oidc.properties"))
    try:
        seen = []
        for claims in ({"aud": "others"}, {"nonce": "of another login"}, {"iss": "https://others"}, {"exp": 1}):
            issuer.claims = claims
            seen.append(outcome(console, issuer))
        issuer.claims = {}
        assert [status for status, _ in seen] == [403] * 4, seen
        issuer.signer = Issuer()
        assert outcome(console, issuer)[0] == 403
        issuer.signer = issuer.keys
        status, words = outcome(console, issuer)
        assert status == 429 and "wait a minute" in words  # five failures of one address
        assert {one["action"] for one in audited(console)} == {"login"}
    finally:
        console.stop()
        issuer.close()


def test_code_is_of_one_browser_and_one_use(signed_on: ConsoleProcess, issuer: LoginIssuer) -> None:
    began, other = IssuerVisitor(signed_on.address), IssuerVisitor(signed_on.address)
    given = dict(urllib.parse.parse_qsl(began.login("olga").partition("?")[2]))
    assert given["redirect_uri"] == f"{signed_on.address}/login/oidc/callback"
    back = issuer.authorized(given).removeprefix(signed_on.address)
    other.get(back)
    assert other.status == 403
    assert "You are logged in" in began.get(back)
    began.get(back)
    assert began.status == 403


def outcome(console: ConsoleProcess, issuer: LoginIssuer) -> tuple[int, str]:
    visitor = IssuerVisitor(console.address)
    page = visitor.visit(issuer.url + visitor.login("olga"))
    return visitor.status, page


def test_issuer_that_does_not_answer_is_named(console_three: str, tmp_path: Path) -> None:
    issuer = LoginIssuer()
    issuer.close()
    (tmp_path / "oidc.properties").write_text(issuer.settings())
    console = ConsoleProcess(console_three, tmp_path, "--oidc", str(tmp_path / "oidc.properties"))
    try:
        visitor = Visitor(console.address)
        page = visitor.get("/login/oidc")
        assert visitor.status == 502 and f"The issuer {issuer.url} cannot be used" in page
    finally:
        console.stop()
