"""OpenID Connect issuers that lie to the console: a page with the reason, in limits of memory and time, and no secret."""

from __future__ import annotations

import html
import json
import re
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from odradek.admin.connection import Connection
from odradek.console.access import bounded_transport
from odradek.console.application import application
from odradek.console.backend import Backend
from odradek.console.settings import Settings
from starlette.testclient import TestClient

from tests.hostile.token_liars import CLIENT, SECRET, Reply, endpoint, sends

pytestmark = pytest.mark.usefixtures("sockets")

_PYTHON = re.compile(r"Traceback|indices must|object (has|does)|codec|\bb['\"]|recursion")
_LARGE = b'{"issuer":"' + b"a" * (4 << 20) + b'"}'
#: Bodies of a response that has another form.
FORMS = {
    "a list": b"[]",
    "a null": b"null",
    "a text": b'"x"',
    "a page": b"<html>",
    "deep nesting": b"[" * 100_000,
    "a large body": _LARGE,
    "no text": b"\xff\xfe",
    "nothing": b"",
}
#: Addresses that neither a browser nor the console may be sent to.
ADDRESSES = (
    5, None, [], "", "javascript:alert(1)", "file:///etc/passwd", "ftp://h/x", "http://evil.example/", "//h",
    "https://h/\r\nX: y", "https://\ud800",
)  # fmt: skip
NAMES = ("authorization_endpoint", "token_endpoint", "jwks_uri", "end_session_endpoint", "userinfo_endpoint")


def metadata(url: str, **more: Any) -> bytes:
    found = {
        "issuer": url,
        "authorization_endpoint": f"{url}/authorize",
        "token_endpoint": f"{url}/grant",
        "jwks_uri": f"{url}/keys",
    }
    return json.dumps({**found, **more}).encode()


def visitor(url: str, folder: Path) -> TestClient:
    file = folder / "oidc"
    file.write_text(f"issuer.url={url}\nclient.id={CLIENT}\nclient.secret={SECRET}\nadmin.values=a\n")
    backend = Backend(Connection({"bootstrap.servers": "127.0.0.1:1"}), Settings(oidc=file))
    return TestClient(application(backend), base_url="http://127.0.0.1", follow_redirects=False)


def check(page: str) -> str:
    found = re.search(r'class="words bad"[^>]*>(.*?)</p>', page, re.DOTALL)
    assert found is not None, page[:300]
    words = html.unescape(found[1])
    assert _PYTHON.search(words) is None and SECRET not in page and len(words) < 400, words
    return words


@pytest.mark.parametrize("form", FORMS)
def test_metadata_of_another_form_is_a_sentence(form: str, tmp_path: Path) -> None:
    with endpoint(sends(200, FORMS[form])) as lying:
        response = visitor(lying.url.removesuffix("/token"), tmp_path).get("/login/oidc")
    assert response.status_code == 502
    assert ("more than 1 MiB" in check(response.text)) == (form == "a large body")


@pytest.mark.parametrize("name", NAMES)
def test_address_that_is_none_is_not_followed(name: str, tmp_path: Path) -> None:
    for address in ADDRESSES:

        def reply(request: BaseHTTPRequestHandler, wrong: object = address) -> None:
            url = f"http://127.0.0.1:{request.server.server_port}"  # type: ignore[attr-defined]
            sends(200, metadata(url, **{name: wrong}))(request)

        with endpoint(reply) as lying:
            response = visitor(lying.url.removesuffix("/token"), tmp_path).get("/login/oidc")
        if response.status_code == 302:  # one that is not needed here
            place = urlsplit(response.headers["location"])
            assert address is None and name != "authorization_endpoint" and place.hostname == "127.0.0.1", address
        else:
            assert response.status_code == 502 and check(response.text), address


@pytest.mark.parametrize("form", [*FORMS, "no token", "a token that is none", "a number", "words of the issuer"])
def test_token_of_another_form_is_a_sentence(form: str, tmp_path: Path) -> None:
    bodies = {
        **FORMS,
        "no token": b'{"access_token":"x"}',
        "a token that is none": b'{"access_token":"x","id_token":"a.b.c"}',
        "a number": b'{"access_token":"x","id_token":5}',
        "words of the issuer": json.dumps({"error": "invalid_client", "error_description": "x" * 5000}).encode(),
    }

    def reply(request: BaseHTTPRequestHandler) -> None:
        url = f"http://127.0.0.1:{request.server.server_port}"  # type: ignore[attr-defined]
        respond: Reply = sends(200, metadata(url) if "well-known" in request.path else bodies[form])
        respond(request)

    with endpoint(reply) as lying:
        browser = visitor(lying.url.removesuffix("/token"), tmp_path)
        begun = browser.get("/login/oidc")
        (state,) = parse_qs(urlsplit(begun.headers["location"]).query)["state"]
        response = browser.get(f"/login/oidc/callback?code=x&state={state}")
    assert response.status_code == 403 and check(response.text)


def test_issuer_that_drips_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_transport, "WHOLE_S", 0.3)

    def reply(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not request.server.released.wait(0.05):  # type: ignore[attr-defined]
            request.wfile.write(b" ")

    with endpoint(reply) as lying:
        response = visitor(lying.url.removesuffix("/token"), tmp_path).get("/login/oidc")
    assert response.status_code == 502 and "did not come whole" in check(response.text)
