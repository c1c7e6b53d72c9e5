"""An issuer of OAuth tokens: keys made by a library, tokens signed by it, and the list of keys (JWKS)."""

from __future__ import annotations

import json
import threading
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


class KeyServer:
    """Serves a list of keys over HTTP; counts requests."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self.requests = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests += 1
                data = server.document if isinstance(server.document, bytes) else json.dumps(server.document).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> KeyServer:
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()
