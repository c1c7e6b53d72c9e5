"""The steps of a migration: nodes that change one after the other, and the reasons to wait."""

from __future__ import annotations

from typing import NamedTuple

from ...admin.connection import Connection
from ...admin.errors import RequestFailed
from ...admin.metadata_quorum import QuorumDescription
from ...client.error_kinds import ErrorKind
from ...client.explained_errors import from_library
from ...client.user_errors import Misused, UserError
from ...client.wording import counted
from .survey import Survey, SurveyedNode, survey

#: A voter that fetched everything within this time has caught up; one fetch waits for half a second.
_CAUGHT_UP_MS = 3000


def order(survey: Survey, to: str) -> list[SurveyedNode]:
    """Returns the nodes that have to change, the active controller last: so the controller moves once."""
    waiting = [node for node in survey.nodes.values() if node.program != to]
    return sorted(waiting, key=lambda node: (node.is_active, node.is_voter, node.id))


class Step(NamedTuple):
    """A moment of a step. `found` is None while the cluster does not respond; `waits_for` is empty when the next may go."""

    found: Survey | None
    waits_for: list[str]


def look(connection: Connection) -> Step:
    try:
        with connection.admin() as admin:
            found = survey(admin)
    except Misused:
        raise
    except (UserError, RequestFailed) as error:
        known = error if isinstance(error, UserError) else from_library(error)
        if known is not None and known.kind in (ErrorKind.DENIED, ErrorKind.MISUSED):
            raise known from None  # a login or a right that is missing, or an option, which no wait gives
        # A controller or coordinator moves while a node changes.
        return Step(None, [f"the cluster does not respond: {str(error) or type(error).__name__}"])
    return Step(found, blockers(found))


def blockers(survey: Survey) -> list[str]:
    """Returns what keeps the next node from changing now. An empty list: it may go."""
    words = [f"broker {node.id} is fenced" for node in survey.brokers if node.is_fenced]
    offline = under = 0
    for topic in survey.topics:
        for one in topic.partitions:
            offline += one.leader_id < 0
            under += len(one.isr_nodes) < len(one.replica_nodes)
    words += [f"{counted(offline, 'partition')} without a leader"] if offline else []
    words += [f"{counted(under, 'partition')} with replicas that are not in sync"] if under else []
    return words + _quorum_blockers(survey.quorum)


def _quorum_blockers(quorum: QuorumDescription) -> list[str]:
    voters = quorum.current_voters
    if quorum.leader_id == -1 or not voters:
        return ["the quorum has no leader"]
    newest = max(one.last_caught_up_timestamp for one in voters)
    ends = [one.log_end_offset for one in voters if one.replica_id == quorum.leader_id]
    return [
        f"controller {one.replica_id} has not caught up with the quorum"
        for one in voters
        if one.replica_id != quorum.leader_id
        and newest - one.last_caught_up_timestamp > _CAUGHT_UP_MS
        and one.log_end_offset < max(ends, default=0)
    ]
