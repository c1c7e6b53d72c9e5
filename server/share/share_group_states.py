"""Operations that involve both the group's shard and the persister, in sequence.

The shard returns the request for the persister (coordinator/groups/share/offset_requests.py), and the result goes back
to the shard. A lost step, for example after a failure of this broker, is repeated by the next heartbeat or the client's
retry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from ...coordinator.groups.share.persister_requests import (
    INTERNAL_VERSION,
    DeletionOfGroups,
    StatesDeleted,
    StatesInitialized,
)
from ..coordinators.persister_requests import ASKER
from ..coordinators.scatter_and_gather import gather

if TYPE_CHECKING:
    from ...coordinator.groups.share.persister_requests import DeletionsOfStates
    from ...protocol.messages.delete_share_group_state import (
        DeleteShareGroupStateRequest,
        DeleteShareGroupStateResponse,
    )
    from ...protocol.messages.initialize_share_group_state import (
        InitializeShareGroupStateRequest,
        InitializeShareGroupStateResponse,
    )
    from ..coordinators.group_driver import GroupDriver
    from ..coordinators.persister_requests import Persister
    from ..runtime.lazy import Lazy


def nobody(_: object) -> None:
    """Ignores the response."""


class ShareGroupStates:
    """Initializes and deletes the persisted states of share groups, and informs the groups' shards."""

    def __init__(self, groups: GroupDriver, persister: Lazy[Persister]) -> None:
        self._groups = groups
        self._persister = persister

    def initialize(
        self,
        request: InitializeShareGroupStateRequest,
        done: Callable[[InitializeShareGroupStateResponse], None] = nobody,
    ) -> None:
        """Has the persister initialize states and informs the group. `done` gets the persister's response."""
        self._persister().ask(request, partial(self._initialized, request.group_id, done))

    def _initialized(
        self,
        group_id: str,
        done: Callable[[InitializeShareGroupStateResponse], None],
        response: InitializeShareGroupStateResponse,
    ) -> None:
        partitions = {r.topic_id: frozenset(p.partition for p in r.partitions) for r in response.results}
        has_failed = any(p.error_code for result in response.results for p in result.partitions)
        reported = StatesInitialized(group_id, partitions, has_failed)
        self._groups.submit(group_id, reported, INTERNAL_VERSION, ASKER, lambda _: done(response))

    def delete(self, request: DeleteShareGroupStateRequest, done: Callable[[dict[bytes, int]], None]) -> None:
        """Has the persister delete the states of topics and informs the group of the deleted ones. `done` gets an error
        code for each.
        """
        self._persister().ask(request, partial(self._deleted, request.group_id, done))

    def _deleted(
        self, group_id: str, done: Callable[[dict[bytes, int]], None], response: DeleteShareGroupStateResponse
    ) -> None:
        errors = {r.topic_id: next((p.error_code for p in r.partitions if p.error_code), 0) for r in response.results}
        deleted = frozenset(topic_id for topic_id, error in errors.items() if not error)
        if deleted:
            reported = StatesDeleted(group_id, deleted)
            self._groups.submit(group_id, reported, INTERNAL_VERSION, ASKER, lambda _: done(errors))
        else:
            done(errors)

    def delete_groups(self, group_ids: Iterable[str], done: Callable[[dict[str, int]], None]) -> None:
        """Deletes the states of share groups before the groups are deleted. `done` gets the groups that may not be
        deleted, with the reason.
        """
        groups = self._groups
        gather(
            [
                partial(groups.submit, ids[0], DeletionOfGroups(ids), INTERNAL_VERSION, ASKER)
                for ids in groups.by_partition(group_ids)
            ],
            partial(self._delete_each, done),
        )

    def _delete_each(self, done: Callable[[dict[str, int]], None], decided: list[DeletionsOfStates]) -> None:
        rejected: dict[str, int] = {
            group: int(error) for deletions in decided for group, error in deletions.errors.items()
        }
        requests = {group: request for deletions in decided for group, request in deletions.requests.items()}

        def deleted(responses: list[DeleteShareGroupStateResponse]) -> None:
            for group_id, response in zip(requests, responses, strict=True):
                for result in response.results:
                    for partition in result.partitions:
                        if partition.error_code:
                            rejected[group_id] = partition.error_code
            done(rejected)

        gather([partial(self._persister().ask, request) for request in requests.values()], deleted)
