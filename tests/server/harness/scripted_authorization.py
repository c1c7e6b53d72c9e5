"""The authorization of fetches, which the test decides."""

from __future__ import annotations

from collections.abc import Set

from odradek.protocol.messages.fetch import FetchRequest
from odradek.server.fetch.fetch_authorization import FetchAuthorization
from odradek.server.fetch.fetch_context import FetchContext
from odradek.server.fetch.fetched_partition import Topic
from odradek.server.network.call import Call
from odradek.server.runtime.sliced_work import Steps


class ScriptedAuthorization(FetchAuthorization):
    """`denies`: the topics that no client may read. `asked_as`: for each request, whether it was a follower's."""

    def __init__(self, *denies: Topic) -> None:
        self.denies: set[Topic] = set(denies)
        self.asked_as: list[bool] = []

    def denied(self, call: Call[FetchRequest], context: FetchContext, *, is_follower: bool) -> Set[Topic]:
        self.asked_as.append(is_follower)
        return set(self.denies)

    def denied_in_steps(
        self, call: Call[FetchRequest], context: FetchContext, *, is_follower: bool
    ) -> Steps[Set[Topic]]:
        yield
        return self.denied(call, context, is_follower=is_follower)
