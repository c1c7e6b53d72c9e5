"""An OpenID Connect issuer on a port of its own: discovery, keys, a page to log in, codes for PKCE, signed ID tokens.

Keys and tokens come from tests/security/issuer.py, as for brokers. The issuer runs as localhost and the console as
127.0.0.1: a browser treats them as two sites.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.security.issuer import Issuer

CLIENT, SECRET = "odradek-console", "s3cret-of-the-console"
#: Accounts and the groups of each.
ACCOUNTS = {"olga": ["kafka-admins", "staff"], "pavel": ["staff"], "quentin": []}


class LoginIssuer:
    """`claims` replaces claims of the next ID tokens; `signer` signs them."""

    def __init__(self) -> None:
        self.keys = Issuer()
        self.signer = self.keys
        self.claims: dict[str, Any] = {}
        self.logouts = 0
        self._codes: dict[str, dict[str, str]] = {}
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                given = dict(urllib.parse.parse_qsl(query))
                if path == "/.well-known/openid-configuration":
                    self.json(200, issuer.metadata())
                elif path == "/keys":
                    self.json(200, issuer.keys.key_set())
                elif path == "/authorize" and "account" in given:
                    self.send_response(302)
                    self.send_header("Location", issuer.authorized(given))
                    self.end_headers()
                elif path == "/authorize":
                    links = (f'<a href="{html.escape(self.path)}&account={name}">{name}</a>' for name in ACCOUNTS)
                    self.respond(200, "text/html", f"<h1>Issuer</h1>{' '.join(links)}".encode())
                elif path == "/logout":
                    issuer.logouts += 1
                    self.respond(200, "text/html", b"<h1>Logged out of the issuer</h1>")
                else:
                    self.respond(404, "text/plain", b"none")

            def do_POST(self) -> None:
                form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                pair = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
                token = issuer.token(form) if self.headers["Authorization"] == f"Basic {pair}" else None
                if token is None:
                    self.json(400, {"error": "invalid_grant"})
                else:
                    self.json(200, {"access_token": "opaque", "token_type": "Bearer", "id_token": token})

            def json(self, status: int, value: Any) -> None:
                self.respond(status, "application/json", json.dumps(value).encode())

            def respond(self, status: int, kind: str, data: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("localhost", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://localhost:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def settings(self, **more: str) -> str:
        """Returns the content of the `--oidc` file."""
        given = {
            "issuer.url": self.url,
            "client.id": CLIENT,
            "client.secret": SECRET,
            "admin.values": "kafka-admins",
            "viewer.values": "staff,guests",
        } | {name.replace("_", "."): value for name, value in more.items()}
        return "".join(f"{name}={value}\n" for name, value in given.items())

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "end_session_endpoint": f"{self.url}/logout",
            "id_token_signing_alg_values_supported": ["none", "HS256", "RS256"],
        }

    def authorized(self, given: dict[str, str]) -> str:
        """Returns the client's redirect address with a code."""
        assert given["response_type"] == "code" and given["client_id"] == CLIENT, given
        assert given["code_challenge_method"] == "S256" and given["nonce"], given
        code = secrets.token_urlsafe(12)
        self._codes[code] = given
        return f"{given['redirect_uri']}?{urllib.parse.urlencode({'code': code, 'state': given['state']})}"

    def token(self, form: dict[str, str]) -> str | None:
        """Returns the ID token for a code, once, if its verifier and redirect address match."""
        given = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if given is None or (given["code_challenge"], given["redirect_uri"]) != (challenge, form.get("redirect_uri")):
            return None
        claims = {"iss": self.url, "aud": CLIENT, "sub": f"id-{given['account']}", "nonce": given["nonce"]}
        claims |= {"preferred_username": given["account"], "groups": ACCOUNTS[given["account"]]}
        return self.signer.token(time.time(), **(claims | self.claims))
