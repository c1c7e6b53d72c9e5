"""Decisions that sessions keep: how long they count, what they are counted as, and which sessions are kept themselves."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from odradek.metadata.acls import OPERATIONS_OF, Operation, PatternType, Permission, ResourceType
from odradek.metadata.image import AclImage
from odradek.protocol.internal.cluster_metadata import TopicRecord
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicState
from odradek.protocol.messages.fetch import ReplicaState
from odradek.protocol.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.server.access.authorization import authorization as authorization_module
from odradek.server.access.authorization.authorization import (
    CLASS_KEY,
    MOST_SHOWN_NAMES,
    STANDARD_CLASS,
    Authorization,
    _names_in,
)
from odradek.server.access.authorization.recent_decisions import WINDOW_MS, RecentDecisions
from odradek.server.access.authorization.requirements import AuthorizerNotReady
from odradek.server.access.authorization.sessions import MOST_KEPT_NAME, AuthorizationSession
from odradek.server.fetch.fetch_authorization import FetchAuthorization
from odradek.server.fetch.fetch_context import FetchContext
from odradek.server.fetch.fetch_session import FetchSession

from tests.server.harness.images import cache_of, image_with
from tests.server.harness.noted_audit import NotedAudit

ALICE, BOB, ROOT, HOST = "User:alice", "User:bob", "User:root", "/10.0.0.1"
TOPIC = ResourceType.TOPIC


def rule(
    name: str, operation: Operation = Operation.READ, permission: Permission = Permission.ALLOW, who: str = ALICE
) -> AclImage:
    return AclImage(TOPIC, name, PatternType.LITERAL, who, "*", operation, permission)


class Deciding:
    def __init__(self, *rules: AclImage) -> None:
        self.audit = NotedAudit()
        self.authorization = Authorization({CLASS_KEY: STANDARD_CLASS, "super.users": ROOT}, self.audit)
        self.rules: dict[bytes, AclImage] = {}
        self.change(*rules)

    def change(self, *rules: AclImage) -> None:
        """Publishes these rules as the only ones."""
        after = {bytes([number]): one for number, one in enumerate(rules, 1)}
        changes: dict[bytes, AclImage | None] = {key: None for key in self.rules if key not in after}
        before, self.rules = self.rules, after
        for _ in self.authorization.steps(before, {**changes, **after}, is_first=not before):
            pass

    def session(self, principal: str = ALICE) -> AuthorizationSession:
        return AuthorizationSession(self.authorization, principal, HOST)


def test_decision_holds_until_the_rules_change() -> None:
    harness = Deciding(rule("t"))
    session = harness.session()
    assert session.allows(Operation.READ, TOPIC, "t")
    assert not session.allows(Operation.WRITE, TOPIC, "t")
    harness.change(rule("other"))
    assert not session.allows(Operation.READ, TOPIC, "t")
    assert session.allows(Operation.READ, TOPIC, "other")
    assert (harness.authorization.allowed, harness.authorization.denied) == (2, 2)


@pytest.mark.parametrize(("length", "decisions"), [(MOST_KEPT_NAME, 1), (MOST_KEPT_NAME + 1, 3)])
def test_decisions_about_long_names_are_not_kept(length: int, decisions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Deciding(rule("t"))
    session, made = harness.session(), []
    decide = Authorization.decide

    def noting(*arguments: Any) -> bool:
        made.append(arguments)
        return decide(*arguments)

    monkeypatch.setattr(Authorization, "decide", noting)
    for _ in range(3):
        assert not session.allows(Operation.READ, TOPIC, "n" * length)
    assert len(made) == decisions


def test_all_decisions_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorization_module, "MOST_KEPT_DECISIONS", 3)
    harness = Deciding(rule("t"))
    session, version = harness.session(), harness.authorization.version
    for number in range(3):
        session.allows(Operation.READ, TOPIC, str(number))
    assert harness.authorization.version == version
    session.allows(Operation.READ, TOPIC, "3")
    assert harness.authorization.version == version + 1
    for number in range(4, 7):
        session.allows(Operation.READ, TOPIC, str(number))
    assert harness.authorization.version == version + 1, "they are counted anew"


def test_permission_to_write_is_kept_until_the_rules_change_and_not_while_it_is_logged() -> None:
    harness = Deciding(rule("t"))
    session = harness.session()
    session.may_write("t")
    session.may_write("n" * (MOST_KEPT_NAME + 1))
    assert session.written == {"t"}
    harness.change(rule("other"))
    session.may_write("other")
    assert (session.written, session.written_version) == ({"other"}, harness.authorization.version)
    harness.audit.levels.add(logging.DEBUG)
    session.may_write("third")
    assert session.written == {"other"}


@pytest.mark.parametrize(
    ("rules", "principal", "may"),
    [
        ([], ALICE, False),
        ([], ROOT, True),
        ([rule("t", Operation.WRITE)], ALICE, True),
        ([rule("t", Operation.WRITE)], BOB, False),
        ([rule("t", Operation.READ)], ALICE, False),
        ([rule("*", Operation.WRITE)], ALICE, True),
        ([rule("t", Operation.WRITE), rule("*", Operation.WRITE, Permission.DENY)], ALICE, False),
    ],
)
def test_producer_id_needs_a_topic_that_the_client_may_write(rules: list[AclImage], principal: str, may: bool) -> None:
    assert Deciding(*rules).session(principal).may_write_any_topic() == may


def test_client_may_write_a_topic_until_the_last_of_its_rules_is_removed() -> None:
    rules = [rule(name, Operation.WRITE) for name in ("a", "b", "c")]
    harness = Deciding(*rules)
    session = harness.session()
    for count in (3, 2, 1):
        harness.change(*rules[:count])
        assert session.may_write_any_topic()
    harness.change(rule("a", Operation.READ))
    assert not session.may_write_any_topic()
    harness.change(*rules[1:])
    assert session.may_write_any_topic()


def test_only_super_users_have_decisions_before_the_rules_are_known() -> None:
    unready = Authorization({CLASS_KEY: STANDARD_CLASS, "super.users": ROOT}, NotedAudit())
    assert AuthorizationSession(unready, ROOT, HOST).may_write_any_topic()
    with pytest.raises(AuthorizerNotReady):
        AuthorizationSession(unready, ALICE, HOST).may_write_any_topic()


def test_operations_of_a_resource_are_a_bit_for_each() -> None:
    harness = Deciding(rule("t", Operation.READ), rule("t", Operation.DELETE))
    expected = sum(1 << one for one in (Operation.READ, Operation.DELETE, Operation.DESCRIBE))
    assert harness.session().operations(TOPIC, "t") == expected
    assert harness.authorization.allowed == 3
    assert harness.authorization.denied == len(OPERATIONS_OF[TOPIC]) - 3


def test_name_that_a_request_repeats_is_decided_once_and_its_count_is_logged() -> None:
    harness = Deciding(rule("t"))
    session = harness.session()
    session.api = "Fetch"
    assert session.allowed_names(Operation.READ, TOPIC, ["t", "u", "u", "t", "u"]) == {"t"}
    [line] = harness.audit.lines
    shown = [
        line[key] for key in ("decision", "resource_name", "resource_ref_count", "request", "host", "rule", "kind")
    ]
    assert shown == ["Denied", "u", 3, "Fetch", "10.0.0.1", "DefaultDeny", "authorization"]
    assert session.allowed_names(Operation.READ, TOPIC, ["u"], log_denied=False) == set()
    assert len(harness.audit.lines) == 1


def test_decisions_that_allow_are_logged_where_the_log_wants_them() -> None:
    harness = Deciding(rule("t"))
    harness.audit.levels.add(logging.DEBUG)
    for _ in range(2):
        assert harness.session().allows(Operation.READ, TOPIC, "t", count=2)
    assert [(line["level"], line["decision"]) for line in harness.audit.lines] == [(logging.DEBUG, "Allowed")] * 2
    assert harness.audit.lines[0]["rule"].startswith("MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=t")
    harness.audit.lines.clear()
    assert harness.session(ROOT).allows(Operation.READ, TOPIC, "u")
    assert harness.audit.lines[0]["rule"] == "SuperUser"


def test_forwarded_sessions_are_kept_up_to_a_limit_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorization_module, "MOST_FORWARDED_SESSIONS", 2)
    authorization = Deciding().authorization
    first = authorization.session_of(ALICE, HOST, "A")
    second = authorization.session_of(BOB, HOST)
    assert authorization.session_of(ALICE, HOST, "B") is first
    assert first.api == "B"
    third = authorization.session_of(ROOT, HOST)
    assert authorization.session_of(ALICE, HOST) is first
    assert authorization.session_of(ROOT, HOST) is third
    assert authorization.session_of(BOB, HOST) is not second, "it asked longest ago"


@pytest.mark.parametrize("is_written", [True, False])
def test_change_of_the_cluster_is_noted_with_the_first_names(is_written: bool) -> None:
    harness = Deciding()
    harness.audit.levels = {logging.INFO} if is_written else set()
    topics = [CreatableTopic(f"t{number}", 1, 1) for number in range(MOST_SHOWN_NAMES + 2)]
    harness.authorization.note_change(ALICE, HOST, CreateTopicsRequest(topics, 1000))
    if not is_written:
        assert harness.audit.lines == []
        return
    [line] = harness.audit.lines
    assert (line["kind"], line["request"], line["host"]) == ("change", "CreateTopics", "10.0.0.1")
    assert line["names"] == ", ".join(f"t{number}" for number in range(MOST_SHOWN_NAMES))
    assert line["text"].endswith(line["names"])


def test_names_of_a_change_are_those_of_its_items_where_they_have_one() -> None:
    items: list[Any] = [
        CreatableTopic("a", 1, 1),
        AlterConfigsResource(resource_name="b"),
        DeleteTopicState(name=None),
        ReplicaState(),
    ]
    assert _names_in(IncrementalAlterConfigsRequest(resources=items)) == ["a", "b"]
    assert _names_in(MetadataRequest(topics=None)) == []
    assert _names_in(ReplicaState()) == []


def test_recent_decisions_are_those_of_the_last_window() -> None:
    recent = RecentDecisions(1000)
    assert recent.since(2000, 3, 1) == (3, 1, 1000)
    assert recent.since(1000 + WINDOW_MS, 10, 4) == (10, 4, WINDOW_MS)
    assert recent.since(2000 + WINDOW_MS, 12, 5) == (9, 4, WINDOW_MS), "since the second look"
    assert recent.since(2001 + WINDOW_MS, 12, 5) == (9, 4, WINDOW_MS + 1), "a look so soon is not kept"


@pytest.mark.parametrize(("after_ms", "is_kept"), [(WINDOW_MS // 128 - 1, False), (WINDOW_MS // 128, True)])
def test_looks_at_the_counters_are_kept_if_they_are_not_too_close(after_ms: int, is_kept: bool) -> None:
    recent = RecentDecisions(0)
    recent.since(after_ms, 5, 2)
    assert recent.since(after_ms + WINDOW_MS, 9, 3) == ((4, 1, WINDOW_MS) if is_kept else (9, 3, after_ms + WINDOW_MS))


def test_time_between_looks_is_that_of_the_last_one() -> None:
    recent = RecentDecisions(0)
    recent.since(1000, 3, 2)
    recent.since(1100, 5, 2)
    assert recent.since(1100 + WINDOW_MS, 9, 2) == (6, 0, WINDOW_MS + 100)


def test_looks_at_the_counters_are_kept_up_to_a_number() -> None:
    recent = RecentDecisions(0)
    for second in range(1, 200):
        assert recent.since(second * 1000, second * 10, second) == (
            (second * 10, second, second * 1000) if second < 60 else (600, 60, 60_000)
        )


def test_session_counts_its_decisions_from_zero() -> None:
    deciding = Deciding(rule("a"))
    authorization = deciding.authorization
    assert (authorization.allowed, authorization.denied, authorization.rule_count) == (0, 0, 1)
    session = deciding.session()
    assert session.allowed_names(Operation.READ, TOPIC, ["a", "b", "a"]) == {"a"}
    assert (authorization.allowed, authorization.denied) == (1, 1)
    session.operations(TOPIC, "a")
    assert authorization.allowed + authorization.denied == 2 + len(OPERATIONS_OF[TOPIC])
    assert Authorization({CLASS_KEY: STANDARD_CLASS}, NotedAudit()).rule_count == 0, "the rules are not known"


# ---- the topics of a Fetch


class Reader:
    """The session of a client that may read some topics."""

    version = 1
    keeps_decisions = True

    def __init__(self, *topics: str, is_broker: bool = False) -> None:
        self.topics = topics
        self.is_broker = is_broker
        self.asked: list[tuple[str, int]] = []

    def session(self, call: Any) -> Any:
        return self

    def allows(self, operation: Operation, kind: ResourceType, name: str, *, count: int = 1) -> bool:
        assert (operation, kind) == (Operation.READ, TOPIC)
        self.asked.append((name, count))
        return name in self.topics

    def allows_on_cluster(self, operation: Operation) -> bool:
        assert operation is Operation.CLUSTER_ACTION
        return self.is_broker


@pytest.mark.parametrize("uses_ids", [True, False])
def test_topics_that_a_consumer_may_not_read_are_decided_once_each(uses_ids: bool) -> None:
    reader: Any = Reader("mine")
    ids = {b"1": "mine", b"2": "other"}
    metadata = cache_of(image_with(*(TopicRecord(name, id_) for id_, name in ids.items())))
    keys = [b"1", b"2", b"2", b"3", b"1", b"1"] if uses_ids else ["mine", "other", "other", "mine", "mine"]
    named: Any = {(key, number): None for number, key in enumerate(keys)}
    context = FetchContext(named, uses_topic_ids=uses_ids)
    call: Any = None
    denied = FetchAuthorization(reader, metadata).denied(call, context, is_follower=False)
    assert set(denied) == ({b"2"} if uses_ids else {"other"}), "an unknown id is not among them"
    assert reader.asked == [("mine", 3), ("other", 2)]


def test_few_topics_of_a_session_are_quick_to_decide_by_the_rules_of_its_last_request() -> None:
    reader: Any = Reader("mine")
    authorization = FetchAuthorization(reader, cache_of(image_with(TopicRecord("mine", b"1"))))
    session = FetchSession(1, {}, 0, uses_topic_ids=False, is_follower=False)
    call: Any = None

    def is_quick(count: int) -> bool:
        named: Any = {("mine", number): None for number in range(5)} | {
            (f"t{one}", 0): None for one in range(count - 1)
        }
        session.partitions, session.topics = named, None
        context = FetchContext(named, session)
        assert not authorization.is_quick(context), "its topics are not counted"
        authorization.denied(call, context, is_follower=False)
        return authorization.is_quick(context)

    assert is_quick(1) and is_quick(64) and not is_quick(65)
    assert is_quick(1)
    reader.version += 1
    assert not authorization.is_quick(FetchContext(session.partitions, session))
    assert is_quick(1)
    reader.keeps_decisions = False
    assert not is_quick(1), "a class of a user may take any time"


@pytest.mark.parametrize("is_broker", [True, False])
def test_follower_may_read_all_topics_or_none(is_broker: bool) -> None:
    reader: Any = Reader(is_broker=is_broker)
    nothing: Any = None
    partitions: Any = {("t", 0): None}
    context = FetchContext(partitions, uses_topic_ids=False)
    denied = FetchAuthorization(reader, nothing).denied(nothing, context, is_follower=True)
    assert ("t" in denied) == (b"id" in denied) == bool(denied) == (not is_broker) and reader.asked == []
