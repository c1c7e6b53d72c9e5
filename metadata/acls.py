"""Access rules (ACLs): Kafka's codes, the checks of a new rule, and the filters that find rules.

A rule allows or denies a principal on a host an operation on the resources of a pattern. Undefined codes become
UNKNOWN, as Kafka reads them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from .image import AclImage

#: Matches every host or every resource of a type.
WILDCARD = "*"
WILDCARD_PRINCIPAL = "User:*"
#: The only name of the resource CLUSTER.
CLUSTER_NAME = "kafka-cluster"

Code = TypeVar("Code", bound=IntEnum)


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


def names_unknown(*codes: int) -> bool:
    """Returns whether one of the codes (of a resource type, pattern type, operation or permission) is UNKNOWN, which no
    request may name. An undefined code is an error of its item.
    """
    return ResourceType.UNKNOWN in codes


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


#: The operations that a resource of a type has; the authorized operations of KIP-430 are a subset.
OPERATIONS_OF: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}


def known(kind: type[Code], code: int) -> Code:
    """Returns the member of a code; UNKNOWN for a code that there is not."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)


def fault_of_rule(rule: AclImage) -> str | None:
    """Returns why a rule cannot be created, in Kafka's words; None for a valid one."""
    resource_type, pattern_type = known(ResourceType, rule.resource_type), known(PatternType, rule.pattern_type)
    operation, permission = known(Operation, rule.operation), known(Permission, rule.permission_type)
    if resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"Invalid resourceType {resource_type.name}"
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {pattern_type.name}"
    if operation in (Operation.UNKNOWN, Operation.ANY):
        return f"Invalid operation {operation.name}"
    if permission not in (Permission.DENY, Permission.ALLOW):
        return f"Invalid permissionType {permission.name}"
    if not rule.resource_name:
        return "Resource name should not be empty"
    if ":" not in rule.principal:
        return (
            f"Could not parse principal from `{rule.principal}` (no colon is present separating the principal type from "
            "the principal name)"
        )
    return None


class AclFilter(NamedTuple):
    """Finds rules. A None or ANY matches everything. The pattern type MATCH finds the rules that apply to a name."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    @property
    def fault(self) -> str | None:
        """Why nothing can be found by it, in Kafka's words; None for a valid filter."""
        if not (known(ResourceType, self.resource_type) and known(PatternType, self.pattern_type)):
            return "Unknown patternFilter."
        if not (known(Operation, self.operation) and known(Permission, self.permission_type)):
            return "Unknown entryFilter."
        return None

    def find(self, rules: Iterable[AclImage]) -> list[AclImage]:
        """Returns the rules that match, in their order. 100,000 rules take some 10 ms."""
        found = list(rules)
        for place, value in ((0, self.resource_type), (5, self.operation), (6, self.permission_type)):
            if value != ResourceType.ANY:  # the same code in each of the enumerations
                found = [rule for rule in found if rule[place] == value]
        for place, text in ((3, self.principal), (4, self.host)):
            if text is not None:
                found = [rule for rule in found if rule[place] == text]
        if self.resource_name is None and self.pattern_type in (PatternType.ANY, PatternType.MATCH):
            return found
        return [rule for rule in found if self._matches_pattern(rule)]

    def matches(self, rule: AclImage) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, rule.resource_type)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission_type in (Permission.ANY, rule.permission_type)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self._matches_pattern(rule)
        )

    def _matches_pattern(self, rule: AclImage) -> bool:
        name = self.resource_name
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, rule.pattern_type):
            return False
        if name is None or name == rule.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if rule.pattern_type == PatternType.LITERAL:
            return rule.resource_name == WILDCARD
        return rule.pattern_type == PatternType.PREFIXED and name.startswith(rule.resource_name)
