"""The standard authorizer: super users, and the access rules of the metadata log."""

from __future__ import annotations

from collections.abc import Mapping

from ....metadata.acls import Operation, PatternType, Permission, ResourceType
from ....metadata.configs import InvalidConfig
from ....metadata.image import AclImage
from .access_rules import AccessRules
from .requirements import AuthorizerNotReady

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
