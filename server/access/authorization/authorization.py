"""Authorization on a node: the authorizer of `authorizer.class.name` decides for clients, in their sessions."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ....metadata.acls import Operation, PatternType, ResourceType
from ....metadata.configs import InvalidConfig
from ....metadata.image import AclImage
from ...config.own_classes import is_own_class, load_class
from ..audit import AuditLog
from .authorizer import Action, Authorizer, FollowsAcls, RequestContext
from .recent_decisions import RecentDecisions
from .sessions import AuthorizationSession
from .standard_authorizer import StandardAuthorizer

if TYPE_CHECKING:
    from ....protocol.schema import Message
    from .sessions import ClientCall

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
        session = connection.authorization
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
