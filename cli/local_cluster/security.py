"""The security of a cluster on one machine, `odradek cluster start --security scram`: the choice, and its files.

```
security.json                  the choice, and the users with their passwords; the next start finds it
tls/authority.key              the authority that signs; each start issues the certificates anew
tls/authority.pem
tls/node-1.pem                 key and certificate of a node
clients/authority.pem          the authority that clients trust
clients/admin.properties       the settings of a client that is the user `admin`, for Kafka's tools and
                               `--command-config`
clients/admin.crt, .key, .pem  its certificate, where clients have one
```
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..command_parser import UsageError

if TYPE_CHECKING:
    from ...protocol.internal.cluster_metadata import UserScramCredentialRecord
    from ...server.access.provisioning import Security
    from .plan import Plan, PlannedNode

FILE = "security.json"
NAMES = ("tls", "mtls", "scram", "plain")
USER = "admin"
_PASSWORD_BYTES = 15


class ClusterSecurity:
    """The choice of a cluster, and its files in `directory`."""

    def __init__(self, directory: Path, name: str, users: dict[str, str]) -> None:
        from ...server.access.provisioning import Security

        self._directory = directory
        self._name = name
        self.security: Security = Security.named(name, users)
        self.security.check()

    @property
    def client_properties(self) -> Path:
        return self._directory / "clients" / f"{self.security.first_user}.properties"

    def shared_properties(self) -> dict[str, str]:
        """Returns the properties that all nodes have."""
        return self.security.properties(several_nodes=True)

    def node_properties(self, node: PlannedNode) -> dict[str, str]:
        """Returns where a node finds its key, and the authority that it trusts."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._key_file(node)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._directory / "tls" / "authority.pem"),
        }

    def scram_records(self) -> list[UserScramCredentialRecord]:
        """Returns the users of a new cluster."""
        from ..scram_option import scram_user

        mechanism = self.security.mechanism
        return [
            scram_user(f"{mechanism}=[name={name},password={password}]")
            for name, password in self.security.scram_users.items()
        ]

    def write(self, plan: Plan) -> None:
        """Writes all files; certificates are new each time, the authority is kept. Raises OSError, ValueError."""
        import json
        import socket

        from ...server.access.authority import Authority, write_secret
        from ...server.access.client_files import ClientFiles
        from ...server.access.provisioning import NODE_NAME

        write_secret(
            self._directory / FILE, json.dumps({"security": self._name, "users": dict(self.security.users)}) + "\n"
        )
        keys = self._directory / "tls"
        keys.mkdir(mode=0o700, exist_ok=True)
        if (keys / "authority.key").exists():
            authority = Authority.read(keys)
        else:
            authority = Authority.new()
            authority.write(keys)
        hosts = tuple(dict.fromkeys(("localhost", "127.0.0.1", "::1", socket.gethostname())))
        for node in plan.nodes:
            identity = authority.issue(NODE_NAME, hosts)
            write_secret(self._key_file(node), identity.key_pem + identity.chain_pem)
        clients = ClientFiles(self._directory / "clients", self.security)
        clients.directory.mkdir(mode=0o700, exist_ok=True)
        clients.write(authority)
        clients.write_properties(",".join(plan.addresses))

    def _key_file(self, node: PlannedNode) -> Path:
        return self._directory / "tls" / f"node-{node.id}.pem"


def chosen(directory: Path, name: str | None, *, is_new: bool) -> ClusterSecurity | None:
    """Returns the security of a cluster: what was chosen when it was made. Raises UsageError, ValueError, OSError."""
    known = _read(directory)
    if name is not None and not is_new and (known is None or known[0] != name):
        was = f"--security {known[0]}" if known is not None else "no --security"
        raise UsageError(f"this cluster was created with {was}; for another --security, choose another --data-dir")
    if known is not None:
        return ClusterSecurity(directory, *known)
    if name is None:
        return None
    import secrets  # the parser of every command imports this module

    return ClusterSecurity(directory, name, {USER: secrets.token_urlsafe(_PASSWORD_BYTES)})


def _read(directory: Path) -> tuple[str, dict[str, str]] | None:
    import json

    path = directory / FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        name, users = data["security"], {str(user): str(password) for user, password in data["users"].items()}
        if name not in NAMES or not users:
            raise ValueError("it names no known security profile")
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not what `odradek cluster start` wrote: {error}") from None
    return name, users
