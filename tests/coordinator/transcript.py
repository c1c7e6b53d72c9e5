"""Transcripts: the input of a shard, and the exact records and replies that result, compared as a diff.

A line `> command key=value ...` is run; the lines after it are its output. Fields with their default value are not
shown. `ODRADEK_REWRITE=1` writes the output instead of comparing it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable

from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.result import GroupRequest, Record, TopicsDeleted
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.schema import Message

from tests.coordinator.harness.kinds import decode_record, encode_record, new_shard

Options = dict[str, str]

#: A subscription of version 0 to one topic, as in a consumer's metadata.
SUBSCRIPTION = b"\0\0\0\0\0\1%s\xff\xff\xff\xff"


def topic_id(name: str) -> bytes:
    """Returns a readable topic id: the topic's name, padded."""
    return name.encode().ljust(16, b".")


def metadata(text: str) -> bytes:
    """Returns metadata: `on:t` is a consumer's subscription to topic t; other texts are taken literally."""
    if text.startswith("on:"):
        name = text[3:].encode()
        return SUBSCRIPTION % (len(name).to_bytes(2, "big") + name)
    return text.encode()


def pairs(text: str) -> list[tuple[str, str]]:
    return [(item.partition("=")[0], item.partition("=")[2]) for item in text.split(",") if item]


def join_group(o: Options) -> Message:
    return JoinGroupRequest(
        group_id=o.get("group", "g"),
        session_timeout_ms=int(o.get("session", 10_000)),
        rebalance_timeout_ms=int(o.get("rebalance", 30_000)),
        member_id=o.get("member", ""),
        group_instance_id=o.get("instance"),
        protocol_type=o.get("type", "consumer"),
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=metadata(said))
            for name, said in pairs(o.get("protocols", "range=on:t"))
        ],
        reason=o.get("reason"),
    )


def sync_group(o: Options) -> Message:
    return SyncGroupRequest(
        group_id=o.get("group", "g"),
        generation_id=int(o["generation"]),
        member_id=o.get("member", ""),
        group_instance_id=o.get("instance"),
        protocol_type=o.get("type", "consumer"),
        protocol_name=o.get("protocol", "range"),
        assignments=[
            SyncGroupRequestAssignment(member_id=member, assignment=given.encode())
            for member, given in pairs(o.get("assignments", ""))
        ],
    )


def heartbeat(o: Options) -> Message:
    return HeartbeatRequest(
        group_id=o.get("group", "g"),
        generation_id=int(o["generation"]),
        member_id=o.get("member", ""),
        group_instance_id=o.get("instance"),
    )


def leave_group(o: Options) -> Message:
    """Leaves the group: members=a,b/instance,/instance"""
    return LeaveGroupRequest(
        group_id=o.get("group", "g"),
        members=[
            MemberIdentity(member_id=member, group_instance_id=instance or None, reason=o.get("reason"))
            for member, _, instance in (text.partition("/") for text in o["members"].split(","))
        ],
    )


def offset_commit(o: Options) -> Message:
    """Commits offsets: offsets=topic:0=5,topic:1=7"""
    request = OffsetCommitRequest(
        group_id=o.get("group", "g"),
        generation_id_or_member_epoch=int(o.get("generation", -1)),
        member_id=o.get("member", ""),
        group_instance_id=o.get("instance"),
        retention_time_ms=int(o.get("retention", -1)),
    )
    for place, offset in pairs(o["offsets"]):
        topic, _, index = place.partition(":")
        partition = OffsetCommitRequestPartition(
            partition_index=int(index),
            committed_offset=int(offset),
            committed_leader_epoch=int(o.get("epoch", -1)),
            committed_metadata=o.get("metadata"),
        )
        request.topics.append(
            OffsetCommitRequestTopic(name=topic, topic_id=topic_id(o.get("id", topic)), partitions=[partition])
        )
    return request


def offset_fetch(o: Options) -> Message:
    """Fetches offsets: partitions=topic:0,topic:1; by default all"""
    topics = None
    if "partitions" in o:
        topics = [
            OffsetFetchRequestTopics(
                name=topic, topic_id=topic_id(o["id"]) if "id" in o else bytes(16), partition_indexes=[int(index)]
            )
            for topic, _, index in (text.partition(":") for text in o["partitions"].split(","))
        ]
    asked = OffsetFetchRequestGroup(group_id=o.get("group", "g"), topics=topics)
    return OffsetFetchRequest(groups=[asked], require_stable="stable" in o)


def offset_delete(o: Options) -> Message:
    return OffsetDeleteRequest(
        group_id=o.get("group", "g"),
        topics=[
            OffsetDeleteRequestTopic(name=t, partitions=[OffsetDeleteRequestPartition(partition_index=int(index))])
            for t, _, index in (text.partition(":") for text in o["partitions"].split(","))
        ],
    )


def describe_groups(o: Options) -> Message:
    return DescribeGroupsRequest(groups=o.get("groups", "g").split(","))


def list_groups(o: Options) -> Message:
    states, types = (o[key].split(",") if o.get(key) else [] for key in ("states", "types"))
    return ListGroupsRequest(states_filter=states, types_filter=types)


def delete_groups(o: Options) -> Message:
    return DeleteGroupsRequest(groups_names=o.get("groups", "g").split(","))


REQUESTS: dict[str, Callable[[Options], Message]] = {
    "join": join_group,
    "sync": sync_group,
    "heartbeat": heartbeat,
    "leave": leave_group,
    "commit": offset_commit,
    "fetch": offset_fetch,
    "offset-delete": offset_delete,
    "describe": describe_groups,
    "list": list_groups,
    "delete": delete_groups,
}


class Script:
    """A text of commands, each after "> ", run with their output; comments and blank lines are kept."""

    def run(self, text: str) -> str:
        out: list[str] = []
        for line in text.splitlines():
            if line.startswith("> "):
                out += [line, *self.command(line[2:])]
            elif line.startswith("#") or not line.strip():
                out.append(line)
        return "\n".join(out) + "\n"

    def command(self, line: str) -> list[str]:
        raise NotImplementedError


class Transcript(Script):
    """A shard and its log, driven line by line. Every record that it writes goes through bytes into the log."""

    def __init__(self) -> None:
        self.now = 1_000
        self.config = GroupsConfig()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.tokens = 0
        self.shard = self._loaded()

    def command(self, line: str) -> list[str]:
        word, *rest = shlex.split(line)
        options = dict(item.partition("=")[::2] for item in rest)
        if word == "config":
            self.config = GroupsConfig(**{key: int(value) for key, value in options.items()})
            self.shard = self._loaded()
        elif word == "reload":
            self.shard = self._loaded()
        elif word == "pass":
            return self._pass(int(rest[0]))
        elif word == "topics-deleted":
            topics = {name: topic_id(options[name] or name) for name in options}
            self.shard.handle(TopicsDeleted(topics), self.now)
        else:
            self.tokens += 1
            self.shard.handle(self._request(word, options), self.now)
        return self._taken()

    def _request(self, word: str, options: Options) -> GroupRequest:
        return GroupRequest(
            token=options.get("as", f"#{self.tokens}"),
            request=REQUESTS[word](options),
            version=int(options.get("v", 9)),
            client_id=options.get("client", "c"),
            client_host="/127.0.0.1",
            member_uuid=options.get("uuid", f"uuid{self.tokens}"),
        )

    def _pass(self, ms: int) -> list[str]:
        """Advances the time, and shows each moment with output."""
        end, out = self.now + ms, []
        while (deadline := self.shard.deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.shard.expire(self.now)
            taken = self._taken()
            out += [f"  at {self.now}:", *taken] if taken else []
        self.now = end
        return out

    def _taken(self) -> list[str]:
        output = self.shard.take()
        for record in output.records:
            self.log.append(encode_record(record))
            key, value = self.log[-1]
            assert decode_record(key, value)[:2] == record[:2], "a decoded record equals the encoded one"
        lines = [f"  record {shown_record(record)}" for record in output.records]
        return lines + [f"  {reply.token}: {shown(reply.response)}" for reply in output.replies]

    def _loaded(self) -> GroupShard:
        shard = new_shard(self.config)
        for key, value in self.log:
            shard.replay(decode_record(key, value))
        shard.loaded(self.now)
        return shard


def shown_record(record: Record) -> str:
    value = "deleted" if record.value is None else f"v{record.value_version} {shown(record.value)}"
    return f"{shown(record.key)} = {value}"


def shown(value: object) -> str:
    if isinstance(value, Message):
        fields = [(f.name, getattr(value, f.name), f.fresh_default()) for f in value.SCHEMA.fields]
        inner = " ".join(f"{name}={_shown_field(name, v)}" for name, v, default in fields if v != default)
        table = next(cls for cls in type(value).__mro__ if "SCHEMA" in vars(cls))
        return f"{table.__name__}({inner})"
    if isinstance(value, list):
        return "[" + ", ".join(shown(item) for item in value) + "]"
    if isinstance(value, bytes):
        return _shown_bytes(value)
    return repr(value) if value is None or isinstance(value, bool) else str(value)


def _shown_bytes(value: bytes) -> str:
    """Returns bytes in the form of the options: a subscription as `on:topic`, a topic id without padding."""
    topic = value[8:-4]
    if value == SUBSCRIPTION % (len(topic).to_bytes(2, "big") + topic):
        return f"on:{topic.decode()}"
    return ascii(value.rstrip(b"."))[1:]


def _shown_field(name: str, value: object) -> str:
    return ErrorCode(value).name if name == "error_code" and isinstance(value, int) else shown(value)
