"""ListGroups: the groups whose coordinator this broker is, by state and type (KIP-518, KIP-848).

The entries of a list of very many groups are encoded once, in slices of the loop's time, and kept until their group changes.
Most groups have the same type, state and protocol type: the entry's end is encoded once for each of these.

Contract: `protocol/messages/list_groups.py`.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import cast

from ...coordinator.groups.kept_listing import KeptListing
from ...metadata.acls import CLUSTER_NAME, Operation, ResourceType
from ...protocol.codec import stepwise_element_encoder
from ...protocol.encoded_runs import EncodedRuns
from ...protocol.errors import ErrorCode
from ...protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ..access.authorization.requirements import Each
from ..coordinators.group_coordinator import GROUP_COORDINATORS
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.response_size import PLAIN_RESPONSE_ITEMS
from ..network.work_in_turns import work_in_turns
from ..runtime.sliced_work import Steps, run_to_completion
from ..services import Services

_CLUSTER = Each(Operation.DESCRIBE, ResourceType.CLUSTER)
_GROUPS = Each(Operation.DESCRIBE, ResourceType.GROUP)
#: Groups that are encoded in one step.
_ENCODED_AT_ONCE = 64
_FLEXIBLE = ListGroupsResponse.flexible_versions()
#: The longest text whose compact count takes one byte.
_SHORT_BYTES = 126
_pack_size = struct.Struct(">h").pack


def handle(services: Services, call: Call[ListGroupsRequest]) -> None:
    sees_all = not _CLUSTER.denies(services.access.authorizer, call, CLUSTER_NAME, log_denied=False)

    def is_hidden(group_id: str) -> bool:
        return _GROUPS.denies(services.access.authorizer, call, group_id, log_denied=False)

    def reply(responses: list[ListGroupsResponse]) -> None:
        errors = [a.error_code for a in responses if a.error_code not in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)]
        if errors:
            call.reply(ListGroupsResponse(error_code=errors[0]))
            return
        groups = cast("list[KeptListing]", [group for response in responses for group in response.groups])
        if not sees_all:
            groups = [group for group in groups if not is_hidden(group.group_id)]
        if len(groups) <= PLAIN_RESPONSE_ITEMS:
            call.reply(ListGroupsResponse(groups=[*groups]))
        else:
            work_in_turns(call, encoded(groups, call.version), reply_encoded)

    def reply_encoded(groups: EncodedRuns) -> None:
        call.reply(ListGroupsResponse(groups=groups))  # type: ignore[arg-type]

    services.coordinators.groups.submit_to_all(call.request, call.version, call, reply)


def encoded(groups: list[KeptListing], version: int) -> Steps[EncodedRuns]:
    """Encodes the groups for a response of that version. Their entries keep what they were encoded to."""
    made, encoder, left = EncodedRuns(), _ListEncoder(version), iter(groups)
    while run := list(islice(left, _ENCODED_AT_ONCE)):
        for group in run:
            if group.version != version:
                encoder.encode(group)
        made.add(b"".join([group.content for group in run]), len(run))
        yield
    return made


class _ListEncoder:
    """Encodes the groups of one list."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._encode_element = stepwise_element_encoder(ListGroupsResponse, "groups", version)
        self._is_flexible = version in _FLEXIBLE
        #: By protocol type, state and type: the encoded fields behind the group id.
        self._ends: dict[tuple[str, str, str], bytes] = {}

    def encode(self, group: KeptListing) -> None:
        kind = (group.protocol_type, group.group_state, group.group_type)
        end = self._ends.get(kind)
        if end is None:
            end = self._ends[kind] = self._end(kind)
        group_id = group.group_id.encode()
        size = len(group_id)
        if not self._is_flexible:
            group.content = _pack_size(size) + group_id + end
        elif size <= _SHORT_BYTES:
            group.content = b"%c%b%b" % (size + 1, group_id, end)
        else:
            group.content = self._element(group)
        group.version = self._version

    def _end(self, kind: tuple[str, str, str]) -> bytes:
        element = self._element(ListedGroup("", *kind))
        return element[1 if self._is_flexible else 2 :]  # without the empty group id

    def _element(self, group: ListedGroup) -> bytes:
        pieces: list[bytes] = []
        run_to_completion(self._encode_element(group, pieces.append))
        return b"".join(pieces)


ENDPOINT: ApiEndpoint[ListGroupsRequest, ListGroupsResponse] = ApiEndpoint(
    handle=handle, authorization=(_CLUSTER, _GROUPS), place=GROUP_COORDINATORS
)
