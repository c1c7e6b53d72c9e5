"""A cluster whose nodes log in with tokens of an issuer."""

from __future__ import annotations

import ssl
from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from tests.security.issuer import Issuer, KeyServer
from tests.server.harness.certificates import Authority

ISSUED = Issuer()


PREFIX = "sasl.oauthbearer.assertion."


NODES = {"RS256": Issuer("node"), "ES256": Issuer("node", "ES256")}


def key_file(directory: Path, algorithm: str = "RS256", passphrase: str = "") -> Path:
    how = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    path = directory / f"{algorithm}.pem"
    path.write_bytes(NODES[algorithm].key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how))
    return path


class SecuredIssuer:
    """An issuer over HTTPS, with the TLS files of a client that it accepts."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.authority.issue(name="issuer").pem(directory / "issuer.pem"))
        context.load_verify_locations(cadata=self.authority.pem_text)
        context.verify_mode = ssl.CERT_REQUIRED
        self.server = KeyServer(ISSUED.key_set(), ISSUED, tls=context)
        self.trusting = (
            f'ssl.truststore.type="PEM" ssl.truststore.location="{self.authority.pem(directory / "ca.pem")}"'
        )
        key = self.authority.issue(name="node").pem(directory / "node.pem")
        self.proving = f'ssl.keystore.type="PEM" ssl.keystore.location="{key}"'
