"""The console shows why its own login to the cluster fails, on every page and at once."""

from __future__ import annotations

import time
from collections.abc import Iterator

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.console.application import application
from odradek.console.backend import Backend
from odradek.console.settings import Settings
from starlette.testclient import TestClient

from compat_tests.recipes import eventually

#: The library's time-out was 31 s; on an idle machine the poll fails after 0.1 s.
LIMIT_S = 3.0
pytestmark = pytest.mark.usefixtures("sockets")


@pytest.fixture(scope="module")
def secured() -> Iterator[odradek.Broker]:
    with odradek.Broker(security="scram") as running:
        yield running


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sasl.password": "wrong"}, "it rejected the login of admin: Authentication failed"),
        ({"security.protocol": "SSL"}, "expects a login by SASL, and security.protocol is SSL"),
        ({"security.protocol": "PLAINTEXT"}, "expects TLS, and security.protocol is PLAINTEXT"),
        ({"ssl.ca.location": ""}, "its certificate is not trusted"),
    ],
)
def test_pages_show_the_reason(secured: odradek.Broker, changed: dict[str, str], words: str) -> None:
    settings = secured.client_settings("confluent-kafka") | changed
    backend = Backend(Connection({key: value for key, value in settings.items() if value}), Settings())
    began = time.monotonic()
    backend.start()
    try:
        shown = eventually(lambda: backend.trouble, what="the poll has failed", deadline_s=10)
        took_s = time.monotonic() - began
        assert words in shown and took_s < LIMIT_S, (shown, took_s)
        page = TestClient(application(backend), base_url="http://127.0.0.1").get("/topics")
        assert words in page.text
    finally:
        backend.stop()
