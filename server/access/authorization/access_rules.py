"""Access rules.

A rule applies to a resource when its pattern is the resource's name, a prefix of it (PREFIXED), or "*" (LITERAL). A
rule that denies wins over every rule that allows. Rules of READ, WRITE, DELETE and ALTER that allow also allow
DESCRIBE, and those of ALTER_CONFIGS allow DESCRIBE_CONFIGS; rules that deny imply nothing.

A rule is found by its type, pattern, principal, host and name. So a decision looks up the name, "*" and the
prefixes of the name that have a length which the principal's prefixes have; it does not depend on the number of
rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter

from ....metadata.acls import WILDCARD, WILDCARD_PRINCIPAL, Operation, PatternType, Permission, ResourceType
from ....metadata.image import AclImage

_LITERAL, _PREFIXED = int(PatternType.LITERAL), int(PatternType.PREFIXED)
_DENY, _ALLOW = int(Permission.DENY), int(Permission.ALLOW)
_WRITES = (Operation.WRITE, Operation.ALL)
#: Type, pattern type, principal, host, name.
_Place = tuple[int, int, str, str, str]
#: Nearly every place has one rule; none has more than two for each operation.
_Found = AclImage | tuple[AclImage, ...]
_IMPLIED: dict[int, frozenset[int]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
#: Operation -> the operations of rules that deny it, and of rules that allow it.
_DENIED_BY: dict[int, frozenset[int]] = {op: frozenset({op, Operation.ALL}) for op in Operation}
_ALLOWED_BY: dict[int, frozenset[int]] = {op: _DENIED_BY[op] | _IMPLIED.get(op, frozenset()) for op in Operation}


class AccessRules:
    """All rules. `tracks_resources`: counts the rules of each pattern, which only `has_rules` needs."""

    def __init__(self, *, tracks_resources: bool = False) -> None:
        self._rules: dict[_Place, _Found] = {}
        #: Type, principal, host -> the lengths of the prefixes that its rules have, as bits. A removal leaves its bit.
        self._prefix_lengths: dict[tuple[int, str, str], int] = {}
        #: Principal and permission -> the rules about writing to topics.
        self._topic_writers: dict[tuple[str, int], AclImage | dict[AclImage, None]] = {}
        #: The resources of all principals: type, pattern type, name -> number of rules.
        self._resources: dict[tuple[int, int, str], int] | None = {} if tracks_resources else None
        self._any_prefix_lengths: dict[int, int] = {}
        self.count = 0

    # ---- changes

    def add(self, rule: AclImage) -> None:
        place = _place(rule)
        found = self._rules.get(place)
        if found is None:
            self._rules[place] = rule
        else:
            self._rules[place] = (found, rule) if isinstance(found, AclImage) else (*found, rule)
        if rule.pattern_type == _PREFIXED:
            bit = 1 << len(rule.resource_name)
            owner = (rule.resource_type, rule.principal, rule.host)
            self._prefix_lengths[owner] = self._prefix_lengths.get(owner, 0) | bit
            if self._resources is not None:
                lengths = self._any_prefix_lengths
                lengths[rule.resource_type] = lengths.get(rule.resource_type, 0) | bit
        if self._resources is not None:
            resource = (rule.resource_type, rule.pattern_type, rule.resource_name)
            self._resources[resource] = self._resources.get(resource, 0) + 1
        if rule.resource_type == ResourceType.TOPIC and rule.operation in _WRITES:
            self._add_writer(rule)
        self.count += 1

    def remove(self, rule: AclImage) -> None:
        """Removes a rule that is there."""
        place = _place(rule)
        found = self._rules[place]
        left = tuple(other for other in _each(found) if other != rule)
        if not left:
            del self._rules[place]
        else:
            self._rules[place] = left[0] if len(left) == 1 else left
        if self._resources is not None:
            resource = (rule.resource_type, rule.pattern_type, rule.resource_name)
            self._resources[resource] -= 1
            if not self._resources[resource]:
                del self._resources[resource]
        if rule.resource_type == ResourceType.TOPIC and rule.operation in _WRITES:
            self._remove_writer(rule)
        self.count -= 1

    def _add_writer(self, rule: AclImage) -> None:
        writer = (rule.principal, rule.permission_type)
        others = self._topic_writers.get(writer)
        if others is None:
            self._topic_writers[writer] = rule
        elif isinstance(others, dict):
            others[rule] = None
        else:
            self._topic_writers[writer] = {others: None, rule: None}

    def _remove_writer(self, rule: AclImage) -> None:
        writer = (rule.principal, rule.permission_type)
        others = self._topic_writers[writer]
        if isinstance(others, dict) and len(others) > 1:
            del others[rule]
        else:
            del self._topic_writers[writer]

    def apply(self, before: Mapping[bytes, AclImage], changes: Mapping[bytes, AclImage | None]) -> Iterator[None]:
        """Applies the changes of a delta, `before` being the rules by id before it. Yields after each."""
        for acl_id, rule in changes.items():
            old = before.get(acl_id)
            if old is not None:
                self.remove(old)
            if rule is not None:
                self.add(rule)
            yield

    # ---- decisions

    def decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool | None:
        """Returns whether the rules allow it; None if no rule decides."""
        denied_by, allowed_by = _DENIED_BY[operation], _ALLOWED_BY[operation]
        is_allowed = None
        for found in self._applying(principal, host, resource_type, name):
            for rule in (found,) if isinstance(found, AclImage) else found:
                if rule.permission_type == _DENY:
                    if rule.operation in denied_by:
                        return False
                elif rule.operation in allowed_by:
                    is_allowed = True
        return is_allowed

    def has_rules(self, resource_type: int, name: str) -> bool:
        """Returns whether any rule, of whatever principal, applies to the resource."""
        resources = self._resources
        assert resources is not None, "resources are not tracked"
        if (resource_type, _LITERAL, name) in resources:
            return True
        if _is_under_wildcard(name) and (resource_type, _LITERAL, WILDCARD) in resources:
            return True
        lengths = _lengths(self._any_prefix_lengths.get(resource_type, 0))
        return any((resource_type, _PREFIXED, name[:size]) in resources for size in lengths if size <= len(name))

    def may_write_any_topic(self, principal: str, host: str) -> bool:
        """Returns whether the rules allow to write to at least one topic, as Kafka's Authorizer decides it (KIP-679)."""
        denied = {_pattern(rule) for rule in self._writers(principal, host, _DENY)}
        if (_LITERAL, WILDCARD) in denied:
            return False
        allowed = map(_pattern, self._writers(principal, host, _ALLOW))
        return any(pattern == (_LITERAL, WILDCARD) or not _is_dominated(pattern, denied) for pattern in allowed)

    def _writers(self, principal: str, host: str, permission: int) -> Iterator[AclImage]:
        for who in (principal, WILDCARD_PRINCIPAL):
            for rule in _each(self._topic_writers.get((who, permission), ())):
                if rule.host in (host, WILDCARD):
                    yield rule

    def applying(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> list[AclImage]:
        """Returns the rules that say something about it, in the order in which Kafka reads them."""
        denied_by, allowed_by = _DENIED_BY[operation], _ALLOWED_BY[operation]
        found = [
            rule
            for rules in self._applying(principal, host, resource_type, name)
            for rule in _each(rules)
            if rule.operation in (denied_by if rule.permission_type == _DENY else allowed_by)
        ]
        found.sort(key=attrgetter("pattern_type", "operation", "principal", "host", "permission_type"))
        found.sort(key=attrgetter("resource_name"), reverse=True)
        return found

    def _applying(self, principal: str, host: str, resource_type: int, name: str) -> Iterator[_Found]:
        rules, under_wildcard, longest = self._rules, _is_under_wildcard(name), len(name)
        for who in (principal, WILDCARD_PRINCIPAL):
            for where in (WILDCARD, host):
                found = rules.get((resource_type, _LITERAL, who, where, name))
                if found is not None:
                    yield found
                if under_wildcard:
                    found = rules.get((resource_type, _LITERAL, who, where, WILDCARD))
                    if found is not None:
                        yield found
                lengths = self._prefix_lengths.get((resource_type, who, where))
                for size in () if lengths is None else _lengths(lengths):
                    if size > longest:
                        break
                    found = rules.get((resource_type, _PREFIXED, who, where, name[:size]))
                    if found is not None:
                        yield found


def _place(rule: AclImage) -> _Place:
    return rule.resource_type, rule.pattern_type, rule.principal, rule.host, rule.resource_name


def _each(rules: AclImage | Iterable[AclImage]) -> Iterable[AclImage]:
    return (rules,) if isinstance(rules, AclImage) else rules


def _pattern(rule: AclImage) -> tuple[int, str]:
    return rule.pattern_type, rule.resource_name


def _is_under_wildcard(name: str) -> bool:
    """In Kafka the wildcard does not apply to a longer name that begins with it."""
    return name[:1] != WILDCARD


@lru_cache(maxsize=4096)
def _lengths(bits: int) -> tuple[int, ...]:
    """Returns the numbers of the bits that are set, in order."""
    return tuple(number for number in range(bits.bit_length()) if bits >> number & 1)


def _is_dominated(pattern: tuple[int, str], denied: set[tuple[int, str]]) -> bool:
    """Returns whether everything that the pattern covers is denied. Kafka does not look for an empty prefix."""
    if pattern in denied and pattern[0] == _LITERAL:
        return True
    name = pattern[1]
    return any((_PREFIXED, name[:size]) in denied for size in range(1, len(name) + 1))
