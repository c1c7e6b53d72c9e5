"""The common part of the Describe APIs of groups: scatters the request to the shards and gathers one response."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from ..network.call import Call
from ..runtime.gather import gather
from ..services import Services
from .authorized_operations import GROUP_OPERATIONS


def describe(
    services: Services,
    call: Call,
    group_ids: Iterable[str],
    question: Callable[[list[str]], Message],
    response: Callable[..., Message],
    first: Iterable[Any] = (),
) -> None:
    """`question` is what is asked for some of the groups; `first` are descriptions that no shard is asked for."""
    groups = services.groups

    def reply(answers: list[Any]) -> None:
        described = [group for answer in answers for group in answer.groups]
        for group in described if call.request.include_authorized_operations else ():
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
        call.reply(response(groups=[*first, *described]))

    gather(
        [partial(groups.submit, ids[0], question(ids), call.version, call) for ids in groups.by_partition(group_ids)],
        reply,
    )
