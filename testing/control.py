"""The operations of the control port: each operation is a row of `OPERATIONS` with its method, path, words and function.

Bodies of both are JSON objects. Functions get the brokers, the values of the path and the query, and the body; what they
raise is a response: ValueError and TypeError 400, KeyError 404, TimeoutError 408, RuntimeError 409.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from .faults.effects import Delay, Drop, Effect, Fail, Hang, Pause, Throttle, Truncate
from .faults.matching import error_of
from .faults.named_values import built

if TYPE_CHECKING:
    from .broker_run import EmbeddedRun
    from .completion import Completion
    from .embedded_clock import EmbeddedClock
    from .faults.fault import Fault
    from .faults.faults import Faults
    from .groups_seen import GroupView
    from .request_log import RequestLog
    from .topics_seen import SeenRecord, TopicView

T = TypeVar("T")
Body = dict[str, Any]
#: The words of `faults.Which` that a request may have.
_WHICH = ("times", "topic", "partition", "client_id", "group", "transactional_id", "version", "nth", "node_id")
_NUMBERS = ("times", "partition", "nth", "node_id")
MOST_FAULTS = 1000
MOST_WAIT_S = 60.0

_FAULT_BODY = (
    (
        "kind",
        "string",
        "fail, delay, drop, hang, truncate, throttle, pause, disk_full or slow_disk; the disk kinds apply to "
        "writes to partitions, and accept times, nth, topic, partition and node_id",
    ),
    ("api", "string", 'the API by name, such as "Produce"; a list of them; null for every request'),
    ("error", "string", "for kind fail: Kafka's name of the error, or a list of names and nulls"),
    ("seconds", "number", "for kinds delay, throttle and slow_disk: the delay in seconds"),
    ("size", "integer", "for kind truncate: bytes of the response; a negative number cuts that many bytes at the end"),
    ("after", "boolean", "whether the broker handles the request first"),
    ("times", "integer", "number of requests that the fault applies to"),
    ("nth", "integer", "first request that the fault applies to, counted from 1"),
    ("topic", "string", "name; * and ? are wildcards"),
    ("partition", "integer", "the partition"),
    ("client_id", "string", "client id; * and ? are wildcards"),
    ("group", "string", "group id; * and ? are wildcards"),
    ("transactional_id", "string", "transactional id; * and ? are wildcards"),
    ("version", "integer", "version of the API, or a list of the lowest and the highest version"),
    ("node_id", "integer", "the broker that receives the request"),
)
_TIME = tuple(
    (name, "number", "time to advance, in this unit")
    for name in ("days", "hours", "minutes", "seconds", "milliseconds")
)
_RECORDS = (
    ("values", "array", "values of the records"),
    ("key", "string", "key of all records"),
    ("partition", "integer", "partition; default: 0"),
)
_GROUP_WAIT = (
    ("lag", "integer", "wait until the lag is at most this many records"),
    ("members", "integer", "wait until the group has this many members"),
    ("state", "string", "wait until the group has this state"),
    ("from_start", "boolean", "count partitions without a commit from their first record"),
    ("timeout", "number", "timeout in seconds; default: 10"),
)
_PATH = "the folder, below the one that the test kit was started with"
_LAST = (("last", "integer", "number of lines; default: 100"),)
_WAIT = (
    ("wait_for", "integer", "wait until the topic has this many records"),
    ("timeout", "number", "timeout in seconds; default: 10"),
    ("committed", "boolean", "only committed records, as read_committed"),
)


class Controlled(Protocol):
    """The brokers behind the port: what of `Embedded` other languages use."""

    faults: Faults
    clock: EmbeddedClock

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def requests(self) -> RequestLog: ...

    def reset(self) -> Completion[None]: ...

    def save(self, path: str | Path) -> Completion[None]: ...

    def restore(self, path: str | Path) -> Completion[None]: ...

    def topic(self, name: str) -> TopicView: ...

    def group(self, group_id: str) -> GroupView: ...

    def _here(self) -> EmbeddedRun: ...

    def _do(self, name: str, work: Callable[[], Coroutine[object, None, T]]) -> Completion[T]: ...


@dataclass(slots=True)
class Control:
    """The objects of the operations: the brokers, and the faults that came over HTTP, by id."""

    embedded: Controlled
    #: The folder below which snapshots are saved and restored; None where there are none.
    snapshots: Path | None = None
    faults: dict[int, Fault] = field(default_factory=dict)
    last_id: int = 0


Function = Callable[[Control, Mapping[str, str], Body], Body]


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    summary: str
    function: Function
    #: Fields of the body, and of the query: name, JSON type and words.
    body: tuple[tuple[str, str, str], ...] = ()
    query: tuple[tuple[str, str, str], ...] = ()


def _brokers(control: Control, _: Mapping[str, str], body: Body) -> Body:
    embedded = control.embedded
    return {"bootstrap_servers": embedded.bootstrap_servers, "broker_ids": sorted(embedded._here().servers)}


def _reset(control: Control, _: Mapping[str, str], body: Body) -> Body:
    control.embedded.reset()
    control.faults.clear()
    return {}


def _kill(control: Control, path: Mapping[str, str], body: Body) -> Body:
    run, node_id = control.embedded._here(), int(path["broker"])
    if node_id not in run.servers:
        raise KeyError(f"broker {node_id} does not run")
    kill = getattr(control.embedded, "kill")  # noqa: B009  (of a cluster with an id, of a broker without)
    kill(node_id) if len(run.configs) > 1 else kill()
    return {}


def _restart(control: Control, path: Mapping[str, str], body: Body) -> Body:
    run, node_id = control.embedded._here(), int(path["broker"])
    if node_id not in run.configs:
        raise KeyError(f"there is no broker {node_id}")
    control.embedded._do("restart()", lambda: run.restart(node_id))
    return {}


def _advance(control: Control, _: Mapping[str, str], body: Body) -> Body:
    control.embedded.clock.advance(**{name: float(value) for name, value in body.items()})
    return {"now_ms": control.embedded.clock.now_ms}


def _save(control: Control, _: Mapping[str, str], body: Body) -> Body:
    control.embedded.save(_folder(control, body))
    return {}


def _restore(control: Control, _: Mapping[str, str], body: Body) -> Body:
    control.embedded.restore(_folder(control, body))
    return {}


def _folder(control: Control, body: Body) -> Path:
    """Returns the folder of a snapshot, below the one that the user named. Raises PermissionError, which is an OSError."""
    if control.snapshots is None:
        raise PermissionError(
            "no folder for snapshots is named: use --snapshots FOLDER, or serve_control(snapshots=...)"
        )
    root = control.snapshots.resolve()
    path = (root / _text(body, "path")).resolve()
    if path == root or not path.is_relative_to(root):
        raise PermissionError(f"{path} is not below the folder for snapshots, {root}")
    return path


def _add_fault(control: Control, _: Mapping[str, str], body: Body) -> Body:
    if len(control.faults) >= MOST_FAULTS:
        raise RuntimeError(f"{MOST_FAULTS} faults are active already: remove some")
    which = {name: body.pop(name) for name in _WHICH if name in body}
    for name in _NUMBERS:
        if which.get(name) is not None and type(which[name]) is not int:
            raise ValueError(f"{name} must be an integer")
    if isinstance(which.get("version"), list):
        low, high = which["version"]
        which["version"] = (int(low), int(high))
    kind = _text(body, "kind")
    body.pop("kind")
    if kind in ("disk_full", "slow_disk"):
        fault = _disk_fault(control.embedded.faults, kind, body, which)
    else:
        api, effect = body.pop("api", None), _effect(kind, body)
        if isinstance(effect, Fail) and len(effect.errors) > 1:
            which.setdefault("times", len(effect.errors))
        fault = control.embedded.faults.add(api, effect, **which)
    control.last_id += 1
    control.faults[control.last_id] = fault
    return {"id": control.last_id, **fault.describe()}


def _disk_fault(faults: Faults, kind: str, body: Body, which: Body) -> Fault:
    """Makes a fault of disks. Raises ValueError and TypeError for words that it does not have, those of requests too."""
    if kind == "slow_disk" and type(body.get("seconds")) not in (int, float):
        raise ValueError("slow_disk needs seconds, a number")
    make: Callable[..., Fault] = faults.disk_full if kind == "disk_full" else faults.slow_disk
    return make(**body, **which)


def _effect(kind: str, body: Body) -> Effect:
    """Returns the effect of a kind. Raises ValueError for a kind, and TypeError for words, that are not there."""
    if kind == "fail":
        error = body.pop("error", None)
        codes = tuple(None if one is None else error_of(one) for one in (error if isinstance(error, list) else [error]))
        if codes == (None,):
            raise ValueError("a fault of kind fail needs an error")
        return built(Fail, "a fault of kind fail", {"errors": codes, **body})
    for name, types in (("seconds", (int, float)), ("size", (int,)), ("after", (bool,))):
        if name in body and type(body[name]) not in types:
            raise ValueError(f"{name} is of type {types[0].__name__}")
    if kind == "throttle":
        return built(
            Throttle, "a fault of kind throttle", {"milliseconds": int(float(body.pop("seconds")) * 1000), **body}
        )
    kinds: dict[str, type[Effect]] = {
        "delay": Delay, "drop": Drop, "hang": Hang, "truncate": Truncate, "pause": Pause
    }  # fmt: skip
    if kind not in kinds:
        raise ValueError(
            f"unknown kind of fault {kind!r}: give fail, throttle, {', '.join(kinds)}, disk_full, slow_disk"
        )
    return built(kinds[kind], f"a fault of kind {kind}", body)


def _fault(control: Control, path: Mapping[str, str], body: Body) -> Body:
    number = int(path["id"])
    if number not in control.faults:
        raise KeyError(f"there is no fault {number}")
    return {"id": number, **control.faults[number].describe()}


def _list_faults(control: Control, _: Mapping[str, str], body: Body) -> Body:
    return {"faults": [{"id": number, **fault.describe()} for number, fault in control.faults.items()]}


def _remove_fault(control: Control, path: Mapping[str, str], body: Body) -> Body:
    described = _fault(control, path, body)
    control.faults.pop(int(path["id"])).cancel()
    return described


def _clear_faults(control: Control, _: Mapping[str, str], body: Body) -> Body:
    control.embedded.faults.clear()
    control.faults.clear()
    return {}


def _create_topic(control: Control, path: Mapping[str, str], body: Body) -> Body:
    control.embedded.topic(path["topic"]).create(int(body.get("partitions", 1)), config=body.get("config"))
    return {}


def _records(control: Control, path: Mapping[str, str], body: Body) -> Body:
    topic = control.embedded.topic(path["topic"])
    if "wait_for" in path:
        return {"records": [_shown(one) for one in topic.wait_for(int(path["wait_for"]), timeout=_timeout_s(path))]}
    return {"records": [_shown(one) for one in topic.records(committed=path.get("committed") == "true")]}


def _send(control: Control, path: Mapping[str, str], body: Body) -> Body:
    if not isinstance(body.get("values"), list):
        raise ValueError("values is missing")
    values = [base64.b64decode(value, validate=True) if value is not None else None for value in body["values"]]
    key = base64.b64decode(body["key"], validate=True) if body.get("key") is not None else None
    sent = control.embedded.topic(path["topic"]).send(*values, key=key, partition=int(body.get("partition", 0)))
    return {"base_offset": sent.result}


def _shown(record: SeenRecord) -> Body:
    def encoded(data: bytes | None) -> str | None:
        return base64.b64encode(data).decode() if data is not None else None

    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": encoded(record.key),
        "value": encoded(record.value),
        "headers": [{"key": key, "value": encoded(value)} for key, value in record.headers],
    }


def _group(control: Control, path: Mapping[str, str], body: Body) -> Body:
    group = control.embedded.group(path["group"])
    wanted: Body = {name: int(path[name]) for name in ("lag", "members") if name in path}
    wanted |= {"state": path["state"]} if "state" in path else {}
    if wanted:
        group.wait_for(**wanted, from_start=path.get("from_start") == "true", timeout=_timeout_s(path))
    lags = [{"topic": topic, "partition": index, "lag": lag} for (topic, index), lag in group.lags.items()]
    return {
        "state": group.state,
        "members": group.members,
        "lag": group.lag,
        "lags": lags,
        "uncommitted": group.uncommitted,
    }


def _requests(control: Control, path: Mapping[str, str], body: Body) -> Body:
    return {"requests": control.embedded.requests.lines(int(path.get("last", "100")))}


def _timeout_s(path: Mapping[str, str]) -> float:
    return min(MOST_WAIT_S, float(path.get("timeout", "10")))


def _text(body: Body, name: str) -> str:
    if not isinstance(body.get(name), str) or not body[name]:
        raise ValueError(f"{name} is missing")
    return str(body[name])


OPERATIONS = (
    Operation("GET", "/v1/brokers", "Returns the bootstrap servers, and which brokers run", _brokers),
    Operation("POST", "/v1/reset", "Deletes topics and groups, ends faults, returns to real time", _reset),
    Operation("POST", "/v1/brokers/{broker}/kill", "Kills a broker, as SIGKILL does", _kill),
    Operation("POST", "/v1/brokers/{broker}/restart", "Starts a killed broker again with its port and data", _restart),
    Operation("POST", "/v1/clock/advance", "Advances the clock and runs due timers", _advance, _TIME),
    Operation("POST", "/v1/save", "Saves a snapshot to a folder", _save, (("path", "string", _PATH),)),
    Operation("POST", "/v1/restore", "Restores a snapshot from a folder", _restore, (("path", "string", _PATH),)),
    Operation("POST", "/v1/faults", "Adds a fault", _add_fault, _FAULT_BODY),
    Operation("GET", "/v1/faults", "Lists faults, with the number of affected requests", _list_faults),
    Operation("GET", "/v1/faults/{id}", "Shows a fault, with the number of affected requests", _fault),
    Operation("DELETE", "/v1/faults/{id}", "Removes a fault", _remove_fault),
    Operation("DELETE", "/v1/faults", "Removes all faults", _clear_faults),
    Operation("POST", "/v1/topics/{topic}", "Creates a topic", _create_topic,
              (("partitions", "integer", "number of partitions; default: 1"), ("config", "object", "topic configs"))),
    Operation("GET", "/v1/topics/{topic}/records", "Returns records; keys, values and headers in "
    "base64", _records, (), _WAIT),
    Operation("GET", "/v1/groups/{group}", "Returns state, members and lag of a group", _group, (), _GROUP_WAIT),
    Operation("POST", "/v1/topics/{topic}/records", "Appends records; values and the key in base64", _send, _RECORDS),
    Operation("GET", "/v1/requests", "Returns the last requests of clients, one line each", _requests, (), _LAST),
)  # fmt: skip
