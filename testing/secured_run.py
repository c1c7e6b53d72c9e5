"""The security of one run of embedded brokers: its authority, the files of clients, and the users in the metadata."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..metadata.configs import InvalidConfig
from ..metadata.credentials import (
    BY_NAME,
    MIN_ITERATIONS,
    SALT_BITS,
    ScramMechanism,
    credential_of,
    salt_text,
    salted_password,
)
from ..protocol.errors import ErrorCode
from ..protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ..protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ..server.access.authority import Authority
from ..server.access.client_files import ClientFiles
from ..server.access.provisioning import NODE_NAME, Security, inline_stores
from .polling import reached

if TYPE_CHECKING:
    from ..metadata.image import MetadataImage
    from ..protocol.schema import Request, ResponseT
    from ..server.broker import BrokerServer


#: The code ANY of resource types, pattern types, operations and permissions alike (KIP-140).
_ANY = 1


class RunningNodes(Protocol):
    """The running brokers: servers by node id, and their controller."""

    servers: dict[int, BrokerServer]

    async def active_controller(self) -> BrokerServer: ...

    async def ask_controller(self, request: Request[ResponseT], version: int) -> ResponseT: ...


class SecuredRun:
    """`folder`: where the files of clients are while the brokers run. Raises InvalidConfig for a security that cannot be,
    and where the extra `security` is not installed.
    """

    def __init__(self, security: Security, folder: Path) -> None:
        security.check()
        self.security = security
        self.folder = folder
        self.files = ClientFiles(folder, security)
        #: SASL_PLAINTEXT has no certificates, unless nodes meet each other.
        self._authority: Authority | None = None

    @property
    def listener(self) -> str:
        """The name of the listener for clients."""
        return self.security.protocol

    def properties(self, hosts: tuple[str, ...], *, several_nodes: bool) -> dict[str, str]:
        """Returns what a node adds to its properties, its listeners apart."""
        made = self.security.properties(several_nodes=several_nodes)
        if self.security.has_tls or several_nodes:
            if self._authority is None:
                self._authority = Authority.new()
            made |= inline_stores(self._authority.issue(NODE_NAME, hosts), self._authority)
        return made

    def prepare(self) -> None:
        """Writes the files of clients that do not depend on ports. Raises OSError."""
        self.folder.mkdir(mode=0o700)
        if self._authority is not None:
            self.files.write(self._authority)

    async def provide_users(self, run: RunningNodes) -> None:
        """Has the metadata of the cluster, and every broker, know the users of SCRAM. Raises RuntimeError, TimeoutError."""
        users = self.security.scram_users
        if not users:
            return
        mechanism = BY_NAME[self.security.mechanism]
        image = (await run.active_controller()).node.metadata.image
        missing = {name: word for name, word in users.items() if not _is_known(image, mechanism, name, word)}
        if missing:
            response = await run.ask_controller(_upsertions(mechanism, missing), 0)
            _check(one.error_code for one in response.results)
        await reached(
            lambda: all(
                (name, mechanism.code) in server.node.metadata.image.scram
                for server in run.servers.values()
                for name in users
            ),
            "the users on every broker",
        )

    async def reset(self, run: RunningNodes) -> None:
        """Deletes all access rules, and the users of SCRAM that are not those of `security`; gives these their passwords.
        Raises RuntimeError, TimeoutError.
        """
        image = (await run.active_controller()).node.metadata.image
        if self.security.authorizer:
            response = await run.ask_controller(_every_rule(), 3)
            _check(one.error_code for one in response.filter_results)
        others = [
            ScramCredentialDeletion(name, code) for name, code in image.scram if name not in self.security.scram_users
        ]
        if others:
            altered = await run.ask_controller(AlterUserScramCredentialsRequest(deletions=others, upsertions=[]), 0)
            _check(result.error_code for result in altered.results)
        await self.provide_users(run)


def _check(codes: Iterable[int]) -> None:
    failed = [ErrorCode(code).name for code in codes if code]
    if failed:
        raise RuntimeError(f"the controller returned errors: {', '.join(failed)}")


def _every_rule() -> DeleteAclsRequest:
    found = DeleteAclsFilter(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    return DeleteAclsRequest(filters=[found])


def _is_known(image: MetadataImage, mechanism: ScramMechanism, name: str, password: str) -> bool:
    """Returns whether data of an earlier run has the user with this password."""
    known = image.scram.get((name, mechanism.code))
    if known is None:
        return False
    salted = salted_password(mechanism, password, known.salt, known.iterations)
    return credential_of(mechanism, salted, known.salt, known.iterations) == known


def _upsertions(mechanism: ScramMechanism, users: dict[str, str]) -> AlterUserScramCredentialsRequest:
    made = []
    for name, password in users.items():
        salt = salt_text(secrets.randbits(SALT_BITS))
        salted = salted_password(mechanism, password, salt, MIN_ITERATIONS)
        made.append(ScramCredentialUpsertion(name, mechanism.code, MIN_ITERATIONS, salt, salted))
    return AlterUserScramCredentialsRequest(deletions=[], upsertions=made)


def security_of(given: str | Security | None) -> Security | None:
    """Raises InvalidConfig."""
    if given is None or isinstance(given, Security):
        return given
    if not isinstance(given, str):
        raise InvalidConfig(f"security is a name or an odradek.Security, not {type(given).__name__}")
    return Security.named(given)


def hosts_of(host: str) -> tuple[str, ...]:
    """Returns the names and addresses of a certificate for a broker on `host`: a wildcard stands for this machine."""
    known = ("localhost", "127.0.0.1", "::1")
    others = [name for name in (host, socket.gethostname()) if name and name not in (*known, "0.0.0.0", "::")]
    return tuple(dict.fromkeys((*known, *others)))
