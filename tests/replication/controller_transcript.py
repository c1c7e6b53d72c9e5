"""Controller transcripts: requests, and the exact records and responses decided on, compared as text.

The controller decides on each line `> Request key=value ...`; the lines after it are the result. Values are Python
literals. `v=` is the request version (default: the highest), and `id:name` in a string the id of a topic. Fields with
default values are not shown; nor are the configs in CreateTopics responses. Every record is encoded and decoded, and
the image after each decision must equal the replay of its own snapshot. `ODRADEK_REWRITE=1` writes the actual results.

> broker 2 rack=b dirs=['d2']     registers a broker and unfences it
> stop 2                          its controlled shutdown: heartbeats until it may stop
> restart 2                       registers it anew and unfences it, after a clean stop
> crash 2                         the same, after a power loss
> fence 2                         its session expires without a heartbeat
> balance, > elect-unclean        periodic tasks of the controller
"""

from __future__ import annotations

import ast
import random
import shlex
from typing import Any

from odradek.metadata.delta import MetadataDelta
from odradek.metadata.features import ELIGIBLE_LEADER_REPLICAS, FEATURES, TRANSACTION_VERSION, supported_features
from odradek.metadata.image import EMPTY_IMAGE, METADATA_VERSION
from odradek.metadata.records import decode_record, encode_record
from odradek.metadata.snapshot import image_records
from odradek.protocol.apis import APIS
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import FeatureLevelRecord, RegisterBrokerRecord
from odradek.protocol.schema import ArrayOf, Message
from odradek.protocol.uuids import ZERO_UUID
from odradek.replication.controller.controller import Controller
from odradek.replication.controller.maintenance import (
    BalanceLeadersRequest,
    ElectUncleanLeadersRequest,
    FenceBrokerRequest,
)

APIS_BY_NAME = {api.name: api for api in APIS.values()}
MAINTENANCE: dict[str, type[Message]] = {
    "balance": BalanceLeadersRequest,
    "elect-unclean": ElectUncleanLeadersRequest,
    "fence": FenceBrokerRequest,
}
#: Each finalized feature is a record, and the broker epochs of the transcripts count them. So this list is fixed.
FORMATTED = (METADATA_VERSION, ELIGIBLE_LEADER_REPLICAS, TRANSACTION_VERSION)
CLUSTER_ID = "cluster"
NODE_ID = 1
EPOCH = 1


def directory_id(name: str) -> bytes:
    return name.encode().ljust(16, b".")


class Transcript:
    """A controller, driven line by line."""

    def __init__(self) -> None:
        self.static = {"node.id": str(NODE_ID), "process.roles": "broker,controller"}
        self.levels = {name: FEATURES[name].formatted for name in FORMATTED}
        self.controller = Controller(NODE_ID, CLUSTER_ID, self.static, random.Random(1))
        self.started = False

    def run(self, text: str) -> str:
        out: list[str] = []
        for line in text.splitlines():
            if line.startswith("> "):
                out += [line, *self.command(line[2:])]
            elif line.startswith("#") or not line.strip():
                out.append(line)
        return "\n".join(out) + "\n"

    def command(self, line: str) -> list[str]:
        word, *rest = shlex.split(line)
        options = {key: literal(value) for key, _, value in (item.partition("=") for item in rest)}
        if word in ("config", "features"):
            self.static |= {key: str(value) for key, value in options.items()} if word == "config" else {}
            self.levels |= options if word == "features" else {}
            self.controller = Controller(NODE_ID, CLUSTER_ID, self.static, random.Random(1))
            return []
        self._start()
        if word == "broker":
            return self._register(int(rest[0]), options, quietly=True)
        if word in ("crash", "restart"):
            before = self.controller.image.broker(int(rest[0]))
            previous = before.epoch if before is not None and word == "restart" else -1
            return self._register(int(rest[0]), {"previous": previous}, quietly=False)
        if word == "stop":
            return self._stop(int(rest[0]))
        if word in MAINTENANCE:
            return self.ask(self._maintenance(word, rest), 0)
        api = APIS_BY_NAME[word]
        version = options.pop("v", api.versions.high)
        if any(field.name == "timeout_ms" for field in api.request.SCHEMA.fields):
            options.setdefault("timeout_ms", 30_000)
        return self.ask(self._message(api.request, options), version)

    def ask(self, request: Message, version: int) -> list[str]:
        result = self.controller.handle(request, version)
        lines = [f"  record {self._shown(record)}" for record in result.records]
        self._replay(result.records)
        return [*lines, f"  {self._shown(result.response)}"]

    def _start(self) -> None:
        if self.started:
            return
        self.started = True
        self.controller.load(EMPTY_IMAGE, 0, kraft_version=1)
        names = sorted(self.levels, key=lambda name: (name != METADATA_VERSION, name))
        bootstrap = [FeatureLevelRecord(name=name, feature_level=self.levels[name]) for name in names]
        self._replay(self.controller.activate(bootstrap, transaction_open=False))

    def _replay(self, records: Any) -> None:
        level = self.controller.image.features.metadata_version
        read = [decode_record(encode_record(record, level)) for record in records]
        assert read == list(records), "encoding and decoding preserve the records"
        if records:
            self.controller.replay(records, EPOCH, 0)
        image = self.controller.image
        again = MetadataDelta()
        for record in image_records(image):
            again.replay(record)
        assert again.apply(image.offset, image.epoch, image.last_append_timestamp_ms) == image

    # ---- brokers

    def _register(self, broker_id: int, options: dict[str, Any], *, quietly: bool) -> list[str]:
        before = self.controller.image.broker(broker_id)
        features = supported_features()
        directories = [directory_id(name) for name in options.get("dirs", [f"d{broker_id}"])]
        request = self._message(
            APIS_BY_NAME["BrokerRegistration"].request,
            {
                "broker_id": broker_id,
                "cluster_id": CLUSTER_ID,
                "incarnation_id": random.Random(self.controller.next_offset).randbytes(16),
                "listeners": [{"name": "PLAINTEXT", "host": f"b{broker_id}", "port": 9092, "security_protocol": 0}],
                "features": [
                    {"name": name, "min_supported_version": low, "max_supported_version": high}
                    for name, (low, high) in features.items()
                ],
                "rack": options.get("rack"),
                "log_dirs": list(before.directories) if before is not None else directories,
                "previous_broker_epoch": options.get("previous", -1),
            },
        )
        out = self.ask(request, 4)
        if options.get("fenced"):
            return [] if quietly else out
        out += self._heartbeat(broker_id)
        return [] if quietly else out

    def _heartbeat(self, broker_id: int, **wants: bool) -> list[str]:
        broker = self.controller.image.broker(broker_id)
        assert broker is not None
        fields = {"broker_id": broker_id, "broker_epoch": broker.epoch, **wants}
        fields["current_metadata_offset"] = self.controller.next_offset - 1
        return self.ask(self._message(APIS_BY_NAME["BrokerHeartbeat"].request, fields), 2)

    def _stop(self, broker_id: int) -> list[str]:
        return self._heartbeat(broker_id, want_shut_down=True) + self._heartbeat(broker_id, want_shut_down=True)

    def _maintenance(self, word: str, rest: list[str]) -> Message:
        if word != "fence":
            return MAINTENANCE[word]()
        broker = self.controller.image.broker(int(rest[0]))
        assert broker is not None
        return FenceBrokerRequest(broker_id=broker.id, broker_epoch=broker.epoch)

    # ---- messages from text, and to text

    def _message(self, cls: type[Message], fields: dict[str, Any]) -> Message:
        table = {field.name: field.type for field in cls.SCHEMA.fields}
        assert fields.keys() <= table.keys(), f"{cls.__name__} has no {sorted(fields.keys() - table.keys())}"
        return cls(**{name: self._value(table[name], value) for name, value in fields.items()})

    def _value(self, kind: Any, value: Any) -> Any:
        if isinstance(kind, ArrayOf) and value is not None:
            return [self._value(kind.element, element) for element in value]
        if isinstance(kind, type) and isinstance(value, dict):
            return self._message(kind, value)
        if isinstance(value, str) and value.startswith("id:"):
            topic = self.controller.image.topic(value[3:])
            return topic.id if topic is not None else value[3:].encode().ljust(16, b"?")
        return value

    def _shown(self, value: Any, name: str = "") -> str:
        if isinstance(value, Message):
            parts = [
                f"{field.name}={self._shown(getattr(value, field.name), field.name)}"
                for field in value.SCHEMA.fields
                if getattr(value, field.name) != field.fresh_default() and field.name not in hidden(value)
            ]
            return f"{type(value).__name__}({' '.join(parts)})"
        if isinstance(value, list):
            return f"[{', '.join(self._shown(element, name) for element in value)}]"
        if isinstance(value, bytes):
            return self._shown_id(value)
        return ErrorCode(value).name if name == "error_code" else str(value)

    def _shown_id(self, value: bytes) -> str:
        topic = self.controller.image.topic_by_id(value)
        if topic is not None:
            return f"id:{topic.name}"
        text = value.rstrip(b".?").decode("ascii", "replace")
        if value == ZERO_UUID:
            return "none"
        return text if text.isprintable() and text.isascii() else "new"


def literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def hidden(message: Message) -> tuple[str, ...]:
    """Returns the fields that are not shown because they are long or random."""
    if isinstance(message, RegisterBrokerRecord):
        return ("incarnation_id", "end_points", "features")
    return ("configs", "incarnation_id")
