"""`odradek.plugins`, which classes of users import: its names and signatures are frozen, and pages name nothing else."""

from __future__ import annotations

import enum
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from odradek import plugins

ROOT = Path(__file__).resolve().parents[1]
#: A name, field, member or parameter may be added at the end. A removal or another order breaks classes of users: it
#: needs the steps of docs/specialists/stable.md, and a line in CHANGELOG.md.
FROZEN = """
AclImage: resource_type; resource_name; pattern_type; principal; host; operation; permission_type
Action: operation; resource_type; name
AlterConfigPolicy: validate(self, request)
AuthenticationContext: listener; security_protocol; client_host; default_principal; mechanism; authorization_id;
    certificate
Authorizer: authorize(self, context, action)
ClientQuotaCallback: quota_tags(self, kind, principal, client_id); quota_limit(self, kind, tags);
    quota_reset_required(self, kind)
ConfigAlteration: resource_type; resource_name; configs
ConfigResourceType: UNKNOWN; TOPIC; BROKER; BROKER_LOGGER; CLIENT_METRICS; GROUP
Configurable: configure(self, properties)
CreateTopicPolicy: validate(self, request)
DamagedRemoteObject: __init__(self, name, position, reason)
FollowsAcls: acls_changed(self, changes)
FollowsQuotas: quotas_changed(self, quotas)
Identity: name; expires_ms; is_token; authorization_id
NoPrincipal:
Operation: UNKNOWN; ANY; ALL; READ; WRITE; CREATE; DELETE; ALTER; DESCRIBE; CLUSTER_ACTION; DESCRIBE_CONFIGS;
    ALTER_CONFIGS; IDEMPOTENT_WRITE; CREATE_TOKENS; DESCRIBE_TOKENS; TWO_PHASE_COMMIT
PartType: LOG; OFFSET_INDEX; TIME_INDEX; TRANSACTION_INDEX; LEADER_EPOCHS; PRODUCER_SNAPSHOT
PasswordCheck: __call__(self, username, password)
PolicyViolation:
PrincipalBuilder: build(self, context)
QuotaKind: PRODUCE; FETCH; REQUEST; CONTROLLER_MUTATION
RemoteLogSegmentMetadata: partition; segment_id; start_offset; end_offset; max_timestamp_ms; broker_id;
    event_timestamp_ms; size_bytes; epochs; state; custom_metadata; txn_index_empty; epoch_end_offset(self, epoch);
    has(self, epoch, offset); updated(self, update)
RemoteResourceNotFound: __init__(self, name)
RemoteStorageError: __init__(self, text, retriable)
RemoteStore: create(self); copy_log_segment_data(self, segment, parts); fetch_log_segment(self, segment, position,
    size); fetch_index(self, segment, part, most_bytes); delete_log_segment_data(self, segment); objects(self);
    close(self)
RequestContext: principal; host; api
ResourceType: UNKNOWN; ANY; TOPIC; GROUP; CLUSTER; TRANSACTIONAL_ID; DELEGATION_TOKEN; USER
SegmentParts: log; offset_index; time_index; transaction_index; producer_snapshot; leader_epochs; sources(self)
StoredObject: partition; start_offset; segment_id; part; size
TokenRejected: __init__(self, words, status, scope)
TokenSupplier: __call__(self)
TokenValidator: __call__(self, token, now_ms)
TopicCreation: topic; num_partitions; replication_factor; replicas_assignments; configs
TopicIdPartition: topic_id; topic; partition
"""
#: Names outside of `odradek.plugins` that pages may import; docs/specialists/stable.md lists them.
OTHER_NAMES = {
    "odradek",
    "odradek.archive",
    "odradek.columns",
    "odradek.spark.latest",
    "odradek.spark.offset_listener",
    "odradek.testing.topics_seen",
    "odradek.testing.recording",
    "odradek.testing.simulation",
    "odradek.testing.testcontainers",
}


#: One name a line.
FROZEN_LINES = re.sub(r"\n +", " ", FROZEN).strip().splitlines()


def members_of(thing: Any) -> list[str]:
    """Fields or members, then methods with the names of their parameters."""
    fields = [member.name for member in thing] if issubclass(thing, enum.Enum) else [*getattr(thing, "_fields", ())]
    methods = [
        f"{name}({', '.join(inspect.signature(method).parameters)})"
        for name, method in vars(thing).items()
        if inspect.isfunction(method) and method.__module__.startswith("odradek") and _is_public(thing, name)
    ]
    return [*fields, *methods]


def _is_public(thing: type, name: str) -> bool:
    return not name.startswith("_") or name == "__call__" or (name == "__init__" and issubclass(thing, Exception))


def test_plugins_exports_the_frozen_names_in_full() -> None:
    frozen = [line.partition(":")[0] for line in FROZEN_LINES]
    assert sorted(plugins.__all__) == sorted(frozen)


@pytest.mark.parametrize("line", FROZEN_LINES)
def test_frozen_name_keeps_its_members(line: str) -> None:
    name, _, listed = line.partition(":")
    members = members_of(getattr(plugins, name))
    frozen = [member for member in listed.strip().split("; ") if member]
    kept = [member for member in members if member in frozen]
    assert kept == frozen, f"{name} lost a member or changed their order: {members}"


def pages() -> list[Path]:
    docs = [
        path
        for path in (ROOT / "docs").rglob("*.md")
        if "development" not in path.parts and "reference" not in path.parts
    ]
    return [*docs, ROOT / "README.md"]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_page_imports_only_stable_names(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    imported = set(re.findall(r"^\s*(?:from|import) (odradek[\w.]*)", text, re.MULTILINE))
    assert imported <= {*OTHER_NAMES, "odradek.plugins"}
