"""DeleteGroups (KIP-229), versions 0-3. See coordinator/admin.py. The groups may be of different shards."""

from __future__ import annotations

from functools import partial

from ...protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ..dispatch import Call
from ..gathering import by_partition, gather


def handle(call: Call) -> None:
    request: DeleteGroupsRequest = call.request
    groups = call.broker.groups
    asked_once = list(dict.fromkeys(request.groups_names))

    def reply(answers: list[DeleteGroupsResponse]) -> None:
        call.reply(DeleteGroupsResponse(results=[result for answer in answers for result in answer.results]))

    gather(
        [
            partial(groups.submit, ids[0], DeleteGroupsRequest(groups_names=ids), call.version, call)
            for ids in by_partition(groups, asked_once)
        ],
        reply,
    )
