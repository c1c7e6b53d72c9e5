"""Clusters with mutual TLS between nodes, and SCRAM within TLS for clients; there is no other listener."""

from __future__ import annotations

from pathlib import Path

from odradek.cli.scram_option import scram_user
from odradek.protocol.internal.cluster_metadata import UserScramCredentialRecord
from odradek.server.access.authority import Authority
from odradek.server.access.client_files import ClientFiles
from odradek.server.access.provisioning import INTERNAL, NODE_NAME, Security

USER, PASSWORD = "tester", "tester-secret-1d7e"


class SecuredNodes:
    """The authority and the user of a cluster. `access` is the file with which clients connect."""

    def __init__(self, directory: Path) -> None:
        self.security = Security(users={USER: PASSWORD})
        self._authority = Authority.new()
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        files = ClientFiles(directory, self.security)
        files.write(self._authority)
        files.write_properties("")
        self.access = files.properties_file(USER)

    @property
    def scram(self) -> str:
        """Returns the user in the form of `odradek format --add-scram`."""
        return f"{self.security.mechanism}=[name={USER},password={PASSWORD}]"

    def users(self) -> list[UserScramCredentialRecord]:
        return [scram_user(self.scram)]

    def secured(self, properties: dict[str, str], host: str, internal_port: int) -> dict[str, str]:
        """Returns the properties of a plain-text node with its listeners secured, and a further listener between brokers."""
        node = properties["node.id"]
        key, trusted = self._directory / f"node-{node}.pem", self._directory / "authority.pem"
        identity = self._authority.issue(NODE_NAME, (host, "localhost"))
        key.write_text(identity.key_pem + identity.chain_pem)
        made = {
            **properties,
            **self.security.properties(several_nodes=True),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(key),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trusted),
        }
        between = f",{INTERNAL}://{host}:{internal_port}" if "broker" in properties["process.roles"] else ""
        for name in ("listeners", "advertised.listeners"):
            if name in made:
                made[name] = made[name].replace("PLAINTEXT://", f"{self.security.protocol}://") + between
        return made
