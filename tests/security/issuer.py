"""An issuer of OAuth tokens: keys from a library, tokens signed with them, and the key set (JWKS)."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

AUDIENCE, ISSUER = "kafka", "https://issuer.test"


class Issuer:
    """Issues tokens for one audience. `algorithm`: RS256 or ES256."""

    def __init__(self, key_id: str = "key-1", algorithm: str = "RS256") -> None:
        self.key_id, self.algorithm = key_id, algorithm
        self.key: Any = (
            ec.generate_private_key(ec.SECP256R1()) if algorithm[0] == "E" else rsa.generate_private_key(65537, 2048)
        )

    def claims(self, now_s: float, **more: Any) -> dict[str, Any]:
        claims = {"sub": "olga", "aud": AUDIENCE, "iss": ISSUER, "iat": int(now_s), "exp": int(now_s) + 60} | more
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, now_s: float, headers: dict[str, Any] | None = None, **more: Any) -> str:
        headers = {"kid": self.key_id} if headers is None else headers
        return jwt.encode(self.claims(now_s, **more), self.key, self.algorithm, headers)

    def key_set(self, **more: Any) -> dict[str, Any]:
        kind = jwt.algorithms.RSAAlgorithm if self.algorithm[0] == "R" else jwt.algorithms.ECAlgorithm
        public = json.loads(kind.to_jwk(self.key.public_key()))
        return {"keys": [{**public, "kid": self.key_id, "use": "sig", **more}]}


def is_signed(token: str, key: Any) -> bool:
    algorithm = "RS256" if isinstance(key, rsa.RSAPublicKey) else "ES256"
    try:
        jwt.PyJWS().decode(token, key, algorithms=[algorithm])
    except jwt.PyJWTError:
        return False
    return True


class KeyServer:
    """Serves a key set over HTTP, and tokens of `issuer` to a client with the right credentials. Counts requests."""

    CLIENT, SECRET = "node", "node-s3cret-61a0"

    def __init__(
        self, document: Any, issuer: Issuer | None = None, *, tls: ssl.SSLContext | None = None, **claims: Any
    ) -> None:
        self.document = document
        self.issuer, self.claims = issuer, claims
        #: The keys of assertions that it accepts in place of the client's credentials.
        self.trusted: list[Any] = []
        self.requests = 0
        #: The headers of token requests, with the path as `:path`.
        self.headers: list[dict[str, str]] = []
        self.asked: list[dict[str, list[str]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests += 1
                data = server.document if isinstance(server.document, bytes) else json.dumps(server.document).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self) -> None:
                server.requests += 1
                form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                server.asked.append(form)
                server.headers.append({":path": self.path, **self.headers})
                is_right = server.admits(form, self.headers["Authorization"]) and server.issuer is not None
                response: dict[str, Any] = {"error": "invalid_client", "secret_words": "s3cret-of-the-issuer"}
                if is_right:
                    assert server.issuer is not None
                    response = {
                        "access_token": server.issuer.token(time.time(), **server.claims),
                        "token_type": "Bearer",
                    }
                data = json.dumps(response).encode()
                self.send_response(200 if is_right else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that TLS refuses
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self._server.server_port}/keys"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def admits(self, form: dict[str, list[str]], authorization: str | None) -> bool:
        """Returns True if the client is authenticated, by its secret or by an assertion."""
        (grant,) = form["grant_type"]
        if "assertion" in form or "client_assertion" in form:
            (assertion,) = form.get("assertion") or form["client_assertion"]
            is_bearer = grant == "urn:ietf:params:oauth:grant-type:jwt-bearer"
            return ("assertion" in form) == is_bearer and any(is_signed(assertion, key) for key in self.trusted)
        pair = base64.b64encode(f"{self.CLIENT}:{self.SECRET}".encode()).decode()
        return authorization == f"Basic {pair}" and grant == "client_credentials"

    def __enter__(self) -> KeyServer:
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()
