"""Users with SCRAM credentials (KIP-554). A password stays here: brokers get it salted and hashed."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from ..client.message_text import shown
from ..metadata.credentials import BY_CODE, BY_NAME, SALT_BITS, salt_text, salted_password
from ..protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ..protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from .errors import InvalidOptions, check
from .session import Admin


class ScramUser(NamedTuple):
    """A credential of a user. `mechanism`: such as SCRAM-SHA-512."""

    user: str
    mechanism: str
    iterations: int


def describe_users(admin: Admin, names: Sequence[str] | None = None) -> list[ScramUser]:
    """Credentials of users, in their order; None: of all. Raises ResponseError for one that has none."""
    users = None if names is None else [UserName(name) for name in names]
    response: DescribeUserScramCredentialsResponse = admin.repeated(
        lambda: admin.ask(DescribeUserScramCredentialsRequest(users=users))
    )
    check("users", response.error_code, response.error_message)
    found = []
    for result in response.results:
        check(f"user {result.user}", result.error_code, result.error_message)
        for one in result.credential_infos:
            known = BY_CODE.get(one.mechanism)
            found.append(ScramUser(result.user, known.name if known else str(one.mechanism), one.iterations))
    return sorted(found)


def check_name(name: str) -> None:
    """Raises InvalidOptions for a name that no broker's SCRAM lets in: Apache Kafka's takes characters of ASCII alone, as
    Odradek's does. A broker would keep the credential, and reject each login with it.
    """
    if not name.isascii() or "\0" in name:
        raise InvalidOptions(
            f"user {shown(name)} could not log in: a name in a SCRAM message has characters of ASCII alone; choose another"
        )


def set_user(admin: Admin, name: str, mechanism: str, password: str, iterations: int) -> None:
    """Creates a credential, or replaces it. Raises ResponseError, and InvalidOptions as `check_name`."""
    check_name(name)
    known = BY_NAME[mechanism]
    salt = salt_text(secrets.randbits(SALT_BITS))
    salted = salted_password(known, password, salt, iterations)
    made = ScramCredentialUpsertion(
        name=name, mechanism=known.code, iterations=iterations, salt=salt, salted_password=salted
    )
    _alter(admin, AlterUserScramCredentialsRequest(deletions=[], upsertions=[made]))


def delete_user(admin: Admin, name: str, mechanisms: Sequence[str]) -> None:
    """Deletes credentials. Raises ResponseError."""
    gone = [ScramCredentialDeletion(name=name, mechanism=BY_NAME[one].code) for one in mechanisms]
    _alter(admin, AlterUserScramCredentialsRequest(deletions=gone, upsertions=[]))


def _alter(admin: Admin, request: AlterUserScramCredentialsRequest) -> None:
    response: AlterUserScramCredentialsResponse = admin.ask_controller(request)
    for one in response.results:
        check(f"user {one.user}", one.error_code, one.error_message)
