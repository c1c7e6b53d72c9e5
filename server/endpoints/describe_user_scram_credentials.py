"""DescribeUserScramCredentials: the mechanisms and iterations of users' SCRAM credentials (KIP-554).

No users, or null, asks for all of them, in the order of their names. A user named twice is DUPLICATE_RESOURCE, one
without credentials RESOURCE_NOT_FOUND.

Contract: `protocol/messages/describe_user_scram_credentials.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from ...metadata.acls import Operation
from ...metadata.credentials import BY_CODE
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ..access.authorization.usual_requirements import on_cluster
from ..network.api_endpoint import ApiEndpoint

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage
    from ..network.call import Call
    from ..services import Services


def handle(services: Services, call: Call[DescribeUserScramCredentialsRequest]) -> DescribeUserScramCredentialsResponse:
    image = services.metadata.image
    if not call.request.users:
        results = [_known(name, infos) for name, infos in sorted(_all_users(image).items())]
    else:
        asked = Counter(user.name for user in call.request.users)
        results = [_result(image, name, count) for name, count in asked.items()]
    return DescribeUserScramCredentialsResponse(error_message="", results=results)


def _all_users(image: MetadataImage) -> dict[str, list[CredentialInfo]]:
    users: dict[str, list[CredentialInfo]] = defaultdict(list)
    for (name, mechanism), credential in image.scram.items():
        users[name].append(CredentialInfo(mechanism=mechanism, iterations=credential.iterations))
    return users


def _known(name: str, infos: list[CredentialInfo]) -> DescribeUserScramCredentialsResult:
    infos.sort(key=lambda info: info.mechanism)
    return DescribeUserScramCredentialsResult(user=name, error_message="", credential_infos=infos)


def _result(image: MetadataImage, name: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    found = [(mechanism, image.scram.get((name, mechanism))) for mechanism in BY_CODE]
    infos = [CredentialInfo(mechanism=code, iterations=known.iterations) for code, known in found if known is not None]
    if infos:
        return _known(name, infos)
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=ErrorCode.RESOURCE_NOT_FOUND,
        error_message=f"Attempt to describe a user credential that does not exist: {name}",
    )


def _rejected(
    call: Call[DescribeUserScramCredentialsRequest], error: ErrorCode, message: str | None
) -> DescribeUserScramCredentialsResponse:
    """Has a result for each user of the request, without a name, as Kafka's has."""
    unseen = [
        DescribeUserScramCredentialsResult(error_code=error, error_message=None) for _ in call.request.users or ()
    ]
    return DescribeUserScramCredentialsResponse(error_code=error, error_message=None, results=unseen)


ENDPOINT: ApiEndpoint[DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse] = ApiEndpoint(
    handle=handle, authorization=(on_cluster(Operation.DESCRIBE),), reject=_rejected
)
