"""An OAuth issuer that is a library's server: oidc-provider, a certified OpenID provider for Node.js, in a process."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from compat_tests.downloads import install_npm
from compat_tests.recipes import eventually

AUDIENCE = "urn:odradek:kafka"
CLIENT, SECRET = "shop", "shop-s3cret-9d04"
_TIMEOUT_S = 60
#: The pinned version of oidc-provider with the program that starts it, and its installation by npm (9 MB).
_PINNED = Path(__file__).with_name("oauth_issuer")
_HOME = Path(__file__).resolve().parents[2] / ".tools" / "oauth-issuer"


def signing_key(key_id: str) -> dict[str, Any]:
    """Returns a new RSA key as a JWK with its private part."""
    made = jwt.algorithms.RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 2048), as_dict=True)
    # With `key_ops` of a private key, oidc-provider does not find the key for tokens.
    return {name: value for name, value in made.items() if name != "key_ops"} | {"kid": key_id}


class OauthServer:
    """oidc-provider on a port of loopback, with one client. The first of `keys` signs, and all are published.

    `issuer` is the name in tokens; by default the URL of the server.
    """

    def __init__(self, directory: Path, *keys: dict[str, Any], issuer: str | None = None) -> None:
        self.directory, self.keys = directory, list(keys)
        self._issuer, self._port = issuer, 0
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def log_file(self) -> Path:
        return self.directory / "issuer.log"

    def start(self) -> OauthServer:
        """Starts the server: first on a free port, later on the same one."""
        install_npm(_PINNED, _HOME)
        # Modules of Node.js are searched for beside the program.
        program, settings = _HOME / "issuer.mjs", self.directory / "settings.json"
        shutil.copy(_PINNED / program.name, program)
        chosen = {"port": self._port, "issuer": self._issuer, "keys": self.keys, "audience": AUDIENCE}
        settings.write_text(json.dumps({**chosen, "client": CLIENT, "secret": SECRET}))
        output = self.directory / "issuer.out"
        with output.open("w") as out, self.log_file.open("a") as log:
            self._process = subprocess.Popen(
                ["node", str(program), str(settings)], stdin=subprocess.DEVNULL, stdout=out, stderr=log
            )
        try:
            self.url = eventually(lambda: self._printed(output), what="the issuer serves")
            self._port = urllib.parse.urlsplit(self.url).port or 0
            #: OpenID Connect Discovery 1.0.
            with urllib.request.urlopen(f"{self.url}/.well-known/openid-configuration", timeout=_TIMEOUT_S) as response:
                self.discovered: dict[str, Any] = json.load(response)
        except BaseException:
            self.stop()
            raise
        return self

    def _printed(self, output: Path) -> str:
        assert self._process.poll() is None, f"the issuer ended: {self.log_file.read_text()}"
        text = output.read_text()
        return text.strip() if text.endswith("\n") else ""

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def rotate(self, key: dict[str, Any]) -> None:
        """Restarts the server with a new key that signs; it publishes the old ones too."""
        self.stop()
        self.keys.insert(0, key)
        self.start()

    def token(self, secret: str = SECRET, **form: str) -> str:
        """Returns a token from the token endpoint, for client credentials. Raises urllib.error.HTTPError."""
        data = urllib.parse.urlencode({"grant_type": "client_credentials", "scope": "orders", **form}).encode()
        pair = base64.b64encode(f"{CLIENT}:{secret}".encode()).decode()
        request = urllib.request.Request(self.discovered["token_endpoint"], data, {"Authorization": f"Basic {pair}"})
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            token: str = json.load(response)["access_token"]
            return token

    def __enter__(self) -> OauthServer:
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self.stop()
