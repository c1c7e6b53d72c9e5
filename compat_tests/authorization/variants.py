"""The rules that the matrix compares: each kind of rule has its own resource, so that all rules can exist at once.

Every client is User:ANONYMOUS with an address of its own: the node, the administrator, and the client under test. Rules
about their addresses permit everything to the first two. So each resource type has rules, and the default is denial.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.metadata.acls import OPERATIONS_OF, Operation, PatternType, Permission, ResourceType
from odradek.protocol.messages.create_acls import AclCreation

NODE, ADMINISTRATOR, CLIENT, ELSEWHERE = "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.9"
ANONYMOUS, EVERYBODY, OTHER = "User:ANONYMOUS", "User:*", "User:bob"
CLUSTER = "kafka-cluster"

_ALL = Operation.ALL
_OPERATIONS = tuple(operation for operation in Operation if operation > Operation.ANY)


@dataclass(frozen=True)
class Rule:
    operation: Operation = _ALL
    permission: Permission = Permission.ALLOW
    principal: str = ANONYMOUS
    host: str = "*"
    #: The length of a prefix of the name; None for the whole name.
    prefix: int | None = None

    def on(self, kind: ResourceType, name: str) -> AclCreation:
        return AclCreation(
            resource_type=kind,
            resource_name=name if self.prefix is None else name[: self.prefix],
            resource_pattern_type=PatternType.LITERAL if self.prefix is None else PatternType.PREFIXED,
            principal=self.principal,
            host=self.host,
            operation=self.operation,
            permission_type=self.permission,
        )


def deny(operation: Operation = _ALL, **more: object) -> Rule:
    return Rule(operation, Permission.DENY, host=CLIENT, **more)  # type: ignore[arg-type]


ALLOWED = Rule(host=CLIENT)

#: Variant -> the rules about its resource. No denial includes the addresses of the node and the administrator.
VARIANTS: dict[str, tuple[Rule, ...]] = {
    "none": (),
    **{f"allow-{op.name}": (Rule(op, host=CLIENT),) for op in _OPERATIONS},
    **{f"deny-{op.name}": (ALLOWED, deny(op)) for op in _OPERATIONS},
    "any-host": (Rule(),),
    "other-host": (Rule(host=ELSEWHERE),),
    "everybody": (Rule(principal=EVERYBODY),),
    "everybody-denied": (ALLOWED, deny(principal=EVERYBODY)),
    "other-principal": (Rule(principal=OTHER),),
    "other-denied": (ALLOWED, deny(principal=OTHER)),
    "prefix-allowed": (Rule(host=CLIENT, prefix=5),),
    "prefix-denied": (ALLOWED, deny(prefix=5)),
    "longer-prefix": (Rule(host=CLIENT, prefix=5), deny(prefix=9)),
}
#: The variants of an ordinary run; a full run has all.
SHORT = (
    "none", "allow-ALL", "allow-READ", "allow-WRITE", "allow-DESCRIBE", "allow-DELETE", "allow-ALTER_CONFIGS",
    "deny-DESCRIBE", "deny-READ", "deny-ALL", "other-host", "everybody", "everybody-denied", "other-principal",
    "prefix-allowed", "prefix-denied",
)  # fmt: skip


def name_of(kind: ResourceType, variant: str, mark: str = "") -> str:
    """Returns the resource of a variant. Names differ in their first characters, so that prefixes do not overlap."""
    number = list(VARIANTS).index(variant)
    return f"{kind.name[0].lower()}{mark or 'r'}{number:03d}-{variant}"


def rules(*marks: str) -> list[AclCreation]:
    """Returns the rules about all resources but the cluster; `marks` tell resources of one variant apart."""
    kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    return [
        rule.on(kind, name_of(kind, variant, mark))
        for kind in kinds
        for mark in marks
        for variant, found in VARIANTS.items()
        for rule in found
    ]


def first_rules() -> list[AclCreation]:
    """Returns the rules that let the node and the administrator do everything."""
    return [
        Rule(host=host).on(kind, CLUSTER if kind is ResourceType.CLUSTER else "*")
        for kind in OPERATIONS_OF
        for host in (NODE, ADMINISTRATOR)
    ]
