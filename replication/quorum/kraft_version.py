"""Upgrade of kraft.version from 0 to 1: voters from the configuration move into the log (KIP-853).

The configuration has only the ids of the voters. So each voter sends every new leader its directory id, its addresses
and its supported versions (UpdateRaftVoter). The leader keeps them for its term. With all of them known, the version
can be raised. A KRaftVersionRecord and a VotersRecord are appended in one batch and are effective from there on, as
every voter set is. There is no downgrade.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.internal.control_records import KRaftVersionRecord
from ...protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from ...protocol.records.control import ControlRecord, ControlType
from ...protocol.uuids import ZERO_UUID
from .core import Core
from .roles import Leader
from .voters import Address, ReplicaKey, Voter, VoterSet


def describe(core: Core, role: Leader, request: UpdateRaftVoterRequest) -> ErrorCode:
    """Records the description of a static voter. It is not written to the log."""
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    if key not in core.voter_set:
        return ErrorCode.VOTER_NOT_FOUND
    feature = request.kraft_version_feature
    low, high = feature.min_supported_version, feature.max_supported_version
    if not request.listeners or key.directory_id == ZERO_UUID or low > 0:
        return ErrorCode.INVALID_REQUEST
    addresses = tuple(Address(it.name, it.host, it.port) for it in request.listeners)
    role.described[key.id] = Voter(key, addresses, low, high)
    return ErrorCode.NONE


def error_text(core: Core, version: int) -> str | None:
    """Returns why the leader cannot raise the version now, or None."""
    voters = _described(core)
    speak = [voter for voter in voters.voters.values() if voter.min_kraft_version <= version <= voter.max_kraft_version]
    if voters.ids == core.voter_set.ids and len(speak) == len(voters.voters):
        return None
    return f"Invalid upgrade of kraft.version to {version} because not all of the voters support it"


def upgrade_records(core: Core, version: int) -> list[ControlRecord]:
    assert error_text(core, version) is None and version > core.voters.kraft_version
    raised = KRaftVersionRecord(version=0, kraft_version=version)
    return [
        ControlRecord(ControlType.KRAFT_VERSION, raised),
        ControlRecord(ControlType.KRAFT_VOTERS, _described(core).to_record()),
    ]


def _described(core: Core) -> VoterSet:
    """Returns the voters that have described themselves, and this node."""
    role = core.role
    assert isinstance(role, Leader), f"{role} has no voters"
    voters = dict(role.described)
    if core.is_voter and core.config.addresses and core.local.directory_id != ZERO_UUID:
        voters[core.local.id] = Voter(core.local, core.config.addresses)
    return VoterSet.of(voters.values())
