"""Authorization on a node: access rules, the authorizer that its configuration names, and sessions of clients.

- `AccessRules`: the access rules of a cluster, indexed for decisions: StandardAuthorizer's semantics.
- `StandardAuthorizer`: decides by super users and access rules.
- `Authorization`: decides for clients, by the authorizer of `authorizer.class.name`, in the sessions of its clients.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from ....metadata.acls import WILDCARD, WILDCARD_PRINCIPAL, Operation, PatternType, Permission, ResourceType
from ....metadata.configs import InvalidConfig
from ....metadata.image import AclImage
from ...config.broker_config import is_own_class, load_class
from ..audit import AuditLog
from .requirements import AuthorizerNotReady
from .sessions import Action, AuthorizationSession, Authorizer, FollowsAcls, RecentDecisions, RequestContext

if TYPE_CHECKING:
    from ....protocol.apis import Api
    from ....protocol.schema import Message


# ---- access rules
#
# A rule applies to a resource when its pattern is the resource's name, a prefix of it (PREFIXED), or "*" (LITERAL). A
# rule that denies wins over every rule that allows. Rules of READ, WRITE, DELETE and ALTER that allow also allow
# DESCRIBE, and those of ALTER_CONFIGS allow DESCRIBE_CONFIGS; rules that deny imply nothing.
#
# A rule is found by its type, pattern, principal, host and name. So a decision looks up the name, "*" and the
# prefixes of the name that have a length which the principal's prefixes have; it does not depend on the number of
# rules.

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
                if rule[6] == _DENY:
                    if rule[5] in denied_by:
                        return False
                elif rule[5] in allowed_by:
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
        found.sort(key=lambda rule: (rule[2], rule[5], rule[3], rule[4], rule[6]))
        found.sort(key=lambda rule: rule.resource_name, reverse=True)
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


def _each(found: AclImage | Iterable[AclImage]) -> Iterable[AclImage]:
    return (found,) if isinstance(found, AclImage) else found


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


# ---- the standard authorizer
#
# The standard authorizer: super users, and the access rules of the metadata log.


SUPER_USERS = "super.users"
ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"


class StandardAuthorizer:
    """The decisions of Kafka's StandardAuthorizer. `properties`: the node's own.

    Raises InvalidConfig for a super user that is no principal.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.super_users = super_users(properties.get(SUPER_USERS, ""))
        self.allows_without_rules = properties.get(ALLOW_EVERYONE, "").strip().lower() == "true"
        #: None until the first image.
        self.rules: AccessRules | None = None

    def new_rules(self) -> AccessRules:
        return AccessRules(tracks_resources=self.allows_without_rules)

    def decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Raises AuthorizerNotReady."""
        if principal in self.super_users:
            return True
        rules = self.rules
        if rules is None:
            raise AuthorizerNotReady
        decision = rules.decide(principal, host, operation, resource_type, name)
        if decision is None:
            return self.allows_without_rules and not rules.has_rules(resource_type, name)
        return decision

    def may_write_any_topic(self, principal: str, host: str) -> bool:
        """See AccessRules. Raises AuthorizerNotReady."""
        # A topic name that is never used: the decision is for super users, who need no rule.
        if self.decide(principal, host, Operation.WRITE, ResourceType.TOPIC, "hardcode"):
            return True
        assert self.rules is not None, "a decision was made"
        return self.rules.may_write_any_topic(principal, host)

    def reason(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> str:
        """Returns the rule that a decision is based on, as Kafka's authorizer logger shows it."""
        if principal in self.super_users:
            return "SuperUser"
        applying = self.rules.applying(principal, host, operation, resource_type, name) if self.rules else []
        denying = [rule for rule in applying if rule.permission_type == Permission.DENY]
        if applying:
            return f"MatchingAcl(acl={shown_rule(denying[0] if denying else applying[-1])})"
        return "DefaultAllow" if self.decide(principal, host, operation, resource_type, name) else "DefaultDeny"


def super_users(text: str) -> frozenset[str]:
    """Returns the principals of `super.users`, which are separated by semicolons. Raises InvalidConfig."""
    users = frozenset(filter(None, map(str.strip, text.split(";"))))
    for user in users:
        if ":" not in user:
            raise InvalidConfig(
                f"{SUPER_USERS}: expected a string in format principalType:principalName but got {user}"
            )
    return users


def shown_rule(rule: AclImage) -> str:
    return (
        f"StandardAcl[resourceType={ResourceType(rule.resource_type).name}, resourceName={rule.resource_name}, "
        f"patternType={PatternType(rule.pattern_type).name}, principal={rule.principal}, host={rule.host}, "
        f"operation={Operation(rule.operation).name}, permissionType={Permission(rule.permission_type).name}]"
    )


# ---- authorization of clients

log = logging.getLogger("odradek.authorizer")

CLASS_KEY = "authorizer.class.name"
STANDARD_CLASS = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
#: Decisions that all sessions keep together; beyond it all are forgotten. They take some 20 MB.
MOST_KEPT_DECISIONS = 100_000
#: Clients of which other nodes forward requests; the one that asked longest ago is forgotten.
MOST_FORWARDED_SESSIONS = 1024
#: Names in a line about a change.
MOST_SHOWN_NAMES = 10
_NAMED_FIELDS = ("topics", "resources", "creations", "deletions", "upsertions")
#: Changes that are applied between two yields.
_CHANGES_PER_STEP = 64


class ClientCall(Protocol):
    """A request of a client; see `Call`."""

    api: Api
    connection: Any

    @property
    def principal(self) -> str: ...

    @property
    def client_host(self) -> str: ...


class Authorization:
    """Decides for clients. Raises InvalidConfig for a class that cannot be used. `properties`: the node's own."""

    def __init__(self, properties: Mapping[str, str], audit: AuditLog, now_ms: int = 0) -> None:
        #: Grows with each change of the rules: decisions of an earlier version do not count.
        self.version = 0
        #: Decisions since the start.
        self.allowed = self.denied = 0
        self.recent = RecentDecisions(now_ms)
        #: Whether decisions that allow are written to the audit log.
        self.logs_allowed: Callable[[], bool] = partial(audit.writes, logging.DEBUG)
        self._audit = audit
        self._kept = 0
        self._forwarded: OrderedDict[tuple[str, str], AuthorizationSession] = OrderedDict()
        self._standard: StandardAuthorizer | None = None
        self._own: Authorizer | None = None
        name = properties.get(CLASS_KEY, "").strip()
        if name == STANDARD_CLASS:
            self._standard = StandardAuthorizer(properties)
        else:
            self._own = _own_authorizer(name, properties)

    # ---- state

    @property
    def class_name(self) -> str:
        """The simple name of its class."""
        return type(self._standard or self._own).__name__

    @property
    def uses_acls(self) -> bool:
        """Whether the access rules of the cluster act here."""
        return self._standard is not None or isinstance(self._own, FollowsAcls)

    @property
    def rule_count(self) -> int:
        rules = self._standard.rules if self._standard is not None else None
        return 0 if rules is None else rules.count

    @property
    def keeps_decisions(self) -> bool:
        """Whether a decision holds until the rules change; a user's own class may decide by anything."""
        return self._standard is not None

    def kept(self) -> None:
        """Counts a decision that a session keeps."""
        self._kept += 1
        if self._kept > MOST_KEPT_DECISIONS:
            self._forget_decisions()

    def _forget_decisions(self) -> None:
        self.version += 1
        self._kept = 0

    # ---- the rules

    def steps(
        self, before: Mapping[bytes, AclImage], changes: Mapping[bytes, AclImage | None], *, is_first: bool
    ) -> Iterator[None]:
        """Follows the rules of a new image, in steps. `before`: those of the image before. `is_first`: there was none."""
        standard = self._standard
        if standard is not None and (changes or is_first):
            rules = standard.new_rules() if standard.rules is None else standard.rules
            for number, _ in enumerate(rules.apply(before, changes)):
                if number % _CHANGES_PER_STEP == 0:
                    self._forget_decisions()
                    yield
            standard.rules = rules
        elif (changes or is_first) and isinstance(self._own, FollowsAcls):
            self._own.acls_changed(changes)
        if changes or is_first:
            self._forget_decisions()

    # ---- sessions

    def session(self, call: ClientCall) -> AuthorizationSession:
        """Returns the session of a request's client."""
        connection, principal, client_host = call.connection, call.principal, call.client_host
        session: AuthorizationSession | None = connection.authorization
        if session is None:
            session = connection.authorization = AuthorizationSession(
                self, connection.principal, connection.client_host
            )
        if session.principal != principal or session.client_host != client_host:
            session = self.session_of(principal, client_host)
            if principal == connection.principal and client_host == connection.client_host:
                connection.authorization = session
        session.api = call.api.name
        return session

    def session_of(self, principal: str, client_host: str, api: str = "") -> AuthorizationSession:
        """Returns the session of a client whose requests other nodes forward."""
        key = (principal, client_host)
        session = self._forwarded.get(key)
        if session is None:
            session = self._forwarded[key] = AuthorizationSession(self, principal, client_host)
            if len(self._forwarded) > MOST_FORWARDED_SESSIONS:
                self._forwarded.popitem(last=False)
        self._forwarded.move_to_end(key)
        session.api = api
        return session

    # ---- decisions, for sessions

    def decide(self, session: AuthorizationSession, operation: int, resource_type: int, name: str) -> bool:
        """Raises AuthorizerNotReady."""
        if self._standard is not None:
            return self._standard.decide(session.principal, session.host, operation, resource_type, name)
        return self._decide_by_own(session, operation, resource_type, name)

    def may_write_any_topic(self, session: AuthorizationSession) -> bool:
        """Raises AuthorizerNotReady."""
        if self._standard is not None:
            return self._standard.may_write_any_topic(session.principal, session.host)
        return self._decide_by_own(session, Operation.WRITE, ResourceType.TOPIC, "hardcode")

    def _decide_by_own(self, session: AuthorizationSession, operation: int, resource_type: int, name: str) -> bool:
        own = self._own
        assert own is not None
        context = RequestContext(session.principal, session.host, session.api)
        try:
            return own.authorize(context, Action(Operation(operation), ResourceType(resource_type), name)) is True
        except Exception:
            log.exception("%s failed; the action is denied", type(own).__name__)
            return False

    def log(self, session: AuthorizationSession, key: tuple[int, int, str], count: int, level: int) -> None:
        """Writes a decision to the audit log, as Kafka's authorizer logger does."""
        if not self._audit.writes(level):
            return
        operation, resource_type, name = key
        is_allowed = level == logging.DEBUG
        reason = type(self._own).__name__
        if self._standard is not None:
            reason = self._standard.reason(session.principal, session.host, *key)
        decision = "Allowed" if is_allowed else "Denied"
        kind = _pascal_case(ResourceType(resource_type).name)
        text = (
            f"Principal = {session.principal} is {decision} operation = {Operation(operation).name} from host = "
            f"{session.host} on resource = {kind}:{PatternType.LITERAL.name}:{name} for request = {session.api} with "
            f"resourceRefCount = {count} based on rule {reason}"
        )
        fields: dict[str, str | int] = {
            "decision": decision,
            "principal": session.principal,
            "host": session.host,
            "operation": Operation(operation).name,
            "resource_type": ResourceType(resource_type).name,
            "resource_name": name,
            "request": session.api,
            "resource_ref_count": count,
            "rule": reason,
        }
        self._audit.write(level, "authorization", text, fields)

    def note_change(self, principal: str, client_host: str, request: Message) -> None:
        """Writes a client's change of the cluster to the audit log."""
        if not self._audit.writes(logging.INFO):
            return
        api = type(request).__name__.removesuffix("Request")
        host, names = client_host.lstrip("/"), ", ".join(_names_in(request))
        text = f"Principal = {principal} changed the cluster by request = {api} from host = {host}"
        fields: dict[str, str | int] = {"principal": principal, "host": host, "request": api, "names": names}
        self._audit.write(logging.INFO, "change", f"{text}: {names}" if names else text, fields)


def _names_in(request: Message) -> list[str]:
    """Returns the first names of what a request is about."""
    items = [item for field in _NAMED_FIELDS for item in getattr(request, field, None) or ()][:MOST_SHOWN_NAMES]
    names = (getattr(item, "name", None) or getattr(item, "resource_name", None) for item in items)
    return [str(name) for name in names if name]


def _own_authorizer(name: str, properties: Mapping[str, str]) -> Authorizer:
    if not is_own_class(name):
        raise InvalidConfig(
            f"{CLASS_KEY}={name}: use {STANDARD_CLASS}, or python:package.module:Name for your own class"
        )
    own: Authorizer = load_class(CLASS_KEY, name, Authorizer, properties)
    return own


def _pascal_case(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
