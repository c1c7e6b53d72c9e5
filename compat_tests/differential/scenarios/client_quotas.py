"""DescribeClientQuotas and AlterClientQuotas (KIP-546)."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, prepare, scenario

Entity = dict[str, str | None]
EXACT, DEFAULT, ANY = range(3)
PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
RATE, MUTATIONS, CONNECTIONS = "request_percentage", "controller_mutation_rate", "connection_creation_rate"
HIGH = 1e9


def parts(entity: Entity) -> list[dict[str, str | None]]:
    return [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]


def entry(entity: Entity, **values: float | None) -> dict[str, Any]:
    """A change of quotas; None removes one."""
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in values.items()]
    return {"entity": parts(entity), "ops": ops}


def alter(*entries: dict[str, Any], validate_only: bool = False) -> Step:
    return ask("AlterClientQuotas", entries=list(entries), validate_only=validate_only)


def component(kind: str, match_type: int = ANY, match: str | None = None) -> dict[str, Any]:
    return {"entity_type": kind, "match_type": match_type, "match": match}


def describe(*components: dict[str, Any], strict: bool = False, count: int | None = None, last: str = "") -> Step:
    """Describes quotas. Waits for `count` entries, the first of them with a quota of the key `last`.

    A Kafka broker may answer before it has the controller's decision.
    """

    def is_there(response: Any) -> bool:
        if response.entries is None or len(response.entries) != count:
            return False
        return not last or any(value.key == last for value in response.entries[0].values)

    until = None if count is None else is_there
    return ask("DescribeClientQuotas", components=list(components), strict=strict, until=until)


def prepared(*entries: dict[str, Any]) -> Step:
    return prepare("AlterClientQuotas", entries=list(entries), validate_only=False)


USER: Entity = {"user": "$u"}
CLIENT: Entity = {"client-id": "$c"}
BOTH: Entity = {"user": "$u", "client-id": "$c"}
OF_USER, OF_CLIENT = component("user", EXACT, "$u"), component("client-id", EXACT, "$c")


def removed(*entities: Entity) -> Step:
    every = dict.fromkeys((PRODUCER, CONSUMER, RATE, MUTATIONS))
    of_ips = dict.fromkeys((CONNECTIONS,))
    return prepared(*(entry(one, **(of_ips if "ip" in one else every)) for one in entities))


ALTERED = [
    scenario(
        "AlterClientQuotas",
        "quotas of every kind of entity are set, changed and removed",
        alter(
            entry(USER, producer_byte_rate=HIGH, consumer_byte_rate=HIGH + 1),
            entry(CLIENT, request_percentage=1e6 + 0.5, controller_mutation_rate=1e6 + 0.5),
            entry(BOTH, producer_byte_rate=HIGH),
        ),
        describe(OF_USER, strict=True, count=1),
        describe(OF_CLIENT, strict=True, count=1),
        describe(OF_USER, OF_CLIENT, strict=True, count=1),
        alter(entry(USER, producer_byte_rate=None, consumer_byte_rate=HIGH, request_percentage=1e6)),
        describe(OF_USER, strict=True, count=1, last=RATE),
        removed(USER, CLIENT, BOTH),
        describe(OF_USER, count=0),
    ),
    scenario(
        "AlterClientQuotas",
        "defaults are entities of their own",
        alter(
            entry({"user": None}, producer_byte_rate=HIGH),
            entry({"client-id": None}, producer_byte_rate=HIGH),
            entry({"user": None, "client-id": None}, producer_byte_rate=HIGH),
            entry({"user": "$u", "client-id": None}, producer_byte_rate=HIGH),
            entry({"user": None, "client-id": "$c"}, producer_byte_rate=HIGH),
            entry({"ip": None}, connection_creation_rate=HIGH),
        ),
        describe(component("user", DEFAULT), strict=True, count=1),
        describe(component("client-id", DEFAULT), strict=True, count=1),
        describe(component("user", DEFAULT), component("client-id", DEFAULT), strict=True, count=1),
        describe(OF_USER, component("client-id", DEFAULT), strict=True, count=1),
        describe(component("user", DEFAULT), OF_CLIENT, strict=True, count=1),
        describe(component("ip", DEFAULT), strict=True, count=1),
        removed(
            {"user": None},
            {"client-id": None},
            {"user": None, "client-id": None},
            {"user": "$u", "client-id": None},
            {"user": None, "client-id": "$c"},
            {"ip": None},
        ),
    ),
    scenario(
        "AlterClientQuotas",
        "addresses take addresses and hosts",
        alter(
            entry({"ip": "192.0.2.7"}, connection_creation_rate=1e6),
            entry({"ip": "2001:db8::7"}, connection_creation_rate=1e6),
            entry({"ip": "localhost"}, connection_creation_rate=1e6),
            entry({"ip": "no-such-host.invalid"}, connection_creation_rate=1e6),
            entry({"ip": "not a host"}, connection_creation_rate=1e6),
        ),
        describe(component("ip", EXACT, "192.0.2.7"), count=1),
        describe(component("ip", EXACT, "localhost"), strict=True, count=1),
        removed({"ip": "192.0.2.7"}, {"ip": "2001:db8::7"}, {"ip": "localhost"}),
    ),
    scenario(
        "AlterClientQuotas",
        "entities that cannot be are refused",
        alter(entry({}, producer_byte_rate=HIGH)),
        alter(entry({"ip": "192.0.2.7", "user": "$u"}, connection_creation_rate=1e6)),
        alter(entry({"ip": "192.0.2.7", "client-id": "$c"}, connection_creation_rate=1e6)),
        alter(entry({"group": "$u"}, producer_byte_rate=HIGH)),
        alter(entry({"user": ""}, producer_byte_rate=HIGH)),
        alter(entry({"client-id": ""}, producer_byte_rate=HIGH)),
        alter(entry({"ip": ""}, connection_creation_rate=HIGH)),
        alter({"entity": parts(USER) + parts({"user": "$v"}), "ops": entry(USER, producer_byte_rate=HIGH)["ops"]}),
        removed({"user": "$v"}),
    ),
    scenario(
        "AlterClientQuotas",
        "keys and values that cannot be are refused",
        *(
            alter(entry(USER, **{key: value}))
            for key in (PRODUCER, CONSUMER, RATE, MUTATIONS)
            for value in (0.0, -1.0, 1.5, 1e19, float("inf"), 1e6 + 1e-7)
        ),
        *(
            alter(entry({"ip": "192.0.2.8"}, connection_creation_rate=value))
            for value in (0.0, -1.0, 1.5, 2.0**31, 2.0**31 - 1)
        ),
        alter(entry({"ip": "192.0.2.8"}, producer_byte_rate=1.0)),
        alter(entry(USER, connection_creation_rate=1.0)),
        alter(entry(USER, no_such_rate=1.0)),
        alter(entry(USER, no_such_rate=None)),
        alter(entry(USER, producer_byte_rate=None, consumer_byte_rate=0.0)),
        alter(entry(USER)),
        alter(),
        describe(OF_USER, count=1),
        removed(USER, {"ip": "192.0.2.8"}),
    ),
    scenario(
        "AlterClientQuotas",
        "an entity and a key come once",
        alter(entry(USER, producer_byte_rate=HIGH), entry(USER, consumer_byte_rate=HIGH)),
        describe(OF_USER, count=1),
        alter({"entity": parts(CLIENT), "ops": 2 * entry(CLIENT, producer_byte_rate=HIGH)["ops"]}),
        alter({"entity": parts(BOTH), "ops": 2 * entry(BOTH, producer_byte_rate=HIGH)["ops"]}),
        describe(OF_CLIENT, count=0),
        removed(USER),
    ),
    scenario(
        "AlterClientQuotas",
        "one wrong entry leaves the others",
        alter(entry(USER, producer_byte_rate=HIGH), entry(CLIENT, producer_byte_rate=HIGH, consumer_byte_rate=0.0)),
        describe(OF_USER, strict=True, count=1),
        describe(OF_CLIENT, strict=True, count=0),
        removed(USER),
    ),
    scenario(
        "AlterClientQuotas",
        "validation changes nothing",
        alter(entry(USER, producer_byte_rate=HIGH), entry(CLIENT, producer_byte_rate=0.0), validate_only=True),
        describe(OF_USER, count=0),
    ),
]

DESCRIBED = [
    scenario(
        "DescribeClientQuotas",
        "filters match parts of entities",
        prepared(
            entry(USER, producer_byte_rate=HIGH),
            entry(CLIENT, producer_byte_rate=HIGH),
            entry(BOTH, producer_byte_rate=HIGH),
            entry({"user": "$u", "client-id": None}, producer_byte_rate=HIGH),
        ),
        describe(OF_USER, count=3),
        describe(OF_CLIENT, count=2),
        describe(OF_USER, component("client-id"), count=2),
        describe(OF_USER, component("client-id"), strict=True),
        describe(OF_USER, component("client-id", DEFAULT)),
        describe(OF_USER, OF_CLIENT),
        describe(OF_USER, strict=True),
        describe(component("user", EXACT, "nobody")),
        describe(component("user", EXACT, "")),
        describe(strict=True),
        removed(USER, CLIENT, BOTH, {"user": "$u", "client-id": None}),
        describe(OF_USER, count=0),
    ),
    scenario(
        "DescribeClientQuotas",
        "filters that cannot be are refused",
        describe(component("")),
        describe(component("group")),
        describe(component("user"), component("user")),
        describe(component("user", EXACT, "a"), component("user")),
        describe(component("user", EXACT)),
        describe(component("user", DEFAULT, "a")),
        describe(component("user", ANY, "a")),
        describe(component("user", 3)),
        describe(component("user", -1, "a")),
        describe(component("ip"), component("user")),
        describe(component("client-id", DEFAULT), component("ip", DEFAULT)),
        describe(component("group", 9), component("")),
    ),
]

MUTATOR: Entity = {"user": "ANONYMOUS"}
OF_MUTATOR = component("user", EXACT, "ANONYMOUS")


def mutations(per_second: float) -> list[Step]:
    """Sets the quota that all connections share, that of User:ANONYMOUS, and waits until it holds."""

    def is_set(response: Any) -> bool:
        return bool(response.entries) and response.entries[0].values[0].value == per_second

    changed = prepared(entry(MUTATOR, controller_mutation_rate=per_second))
    seen = prepare("DescribeClientQuotas", components=[OF_MUTATOR], strict=True, until=is_set)
    return [changed, seen]


def created(*names: str, partitions: int = 6) -> dict[str, Any]:
    wanted = [{"name": name, "num_partitions": partitions, "replication_factor": 1} for name in names]
    return {"topics": wanted, "timeout_ms": 10_000}


def with_eleven_tokens(*names: str) -> list[Step]:
    """Makes topics of six partitions without a limit, which refills the bucket of an earlier run; then sets a quota of 1
    per second: 11 tokens.
    """
    filled = prepare("CreateTopics", on="mutator", version=7, **created("$filling", *names))
    return [*mutations(1e9), filled, *mutations(1.0)]


def grown(name: str, count: int, *, on: str) -> Step:
    topics = [{"name": name, "count": count, "assignments": None}]
    return ask("CreatePartitions", on=on, topics=topics, timeout_ms=10_000, validate_only=False)


THROTTLED = [
    scenario(
        "CreateTopics",
        "the topic that overdraws a quota is made and the next is refused",
        with_eleven_tokens(),
        ask("CreateTopics", on="mutator", **created("$a", "$b", "$c")),
        removed(MUTATOR),
    ),
    scenario(
        "CreateTopics",
        "validation counts towards a quota",
        with_eleven_tokens(),
        ask("CreateTopics", on="mutator", **created("$a", "$b", "$c"), validate_only=True),
        removed(MUTATOR),
    ),
    scenario(
        "CreatePartitions",
        "new partitions count towards a quota",
        with_eleven_tokens("$a", "$b"),
        grown("$a", 18, on="mutator"),
        grown("$b", 12, on="other"),
        removed(MUTATOR),
    ),
    scenario(
        "DeleteTopics",
        "deleted partitions count towards a quota",
        with_eleven_tokens("$a", "$b"),
        ask("DeleteTopics", on="mutator", topic_names=["$a", "$b"], timeout_ms=10_000),
        removed(MUTATOR),
        versions="1-5",
    ),
]
SCENARIOS = [*ALTERED, *DESCRIBED, *THROTTLED]
