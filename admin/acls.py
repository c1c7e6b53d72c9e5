"""Access rules (ACLs): description, creation, deletion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..metadata.acls import Operation, PatternType, Permission, ResourceType
from ..protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ..protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ..protocol.messages.describe_acls import DescribeAclsRequest
from .errors import check
from .session import Admin

__all__ = [
    "Acl",
    "AclFilter",
    "Operation",
    "PatternType",
    "Permission",
    "ResourceType",
    "create_acls",
    "delete_acls",
    "describe_acls",
    "filter_of",
]


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    principal: str
    host: str
    operation: Operation
    permission: Permission
    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType


@dataclass(frozen=True, slots=True)
class AclFilter:
    """None and ANY match everything."""

    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY
    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY


def describe_acls(admin: Admin, wanted: AclFilter) -> list[Acl]:
    """Rules that match. Raises ResponseError, also where the brokers have no authorizer."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    response = admin.repeated(lambda: admin.ask(request))
    check("rules", response.error_code, response.error_message)
    return [
        Acl(
            one.principal,
            one.host,
            Operation(one.operation),
            Permission(one.permission_type),
            ResourceType(resource.resource_type),
            resource.resource_name,
            PatternType(resource.pattern_type),
        )
        for resource in response.resources
        for one in resource.acls
    ]


def create_acls(admin: Admin, rules: Sequence[Acl]) -> None:
    """Raises ResponseError for the first rule that was not created."""
    results = admin.ask_controller(creations(rules)).results
    failed = [one for one in results if one.error_code]
    if failed:
        subject = f"{len(failed)} of {len(rules)} rules" if len(rules) > 1 else "rule"
        check(subject, failed[0].error_code, failed[0].error_message)


def creations(rules: Sequence[Acl]) -> CreateAclsRequest:
    """The request that creates rules."""
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=one.resource_type,
                resource_name=one.resource_name,
                resource_pattern_type=one.pattern_type,
                principal=one.principal,
                host=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            for one in rules
        ]
    )


def deletions(filters: Sequence[AclFilter]) -> DeleteAclsRequest:
    """The request that deletes rules."""
    return DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=one.resource_type,
                resource_name_filter=one.resource_name,
                pattern_type_filter=one.pattern_type,
                principal_filter=one.principal,
                host_filter=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            for one in filters
        ]
    )


def delete_acls(admin: Admin, filters: Sequence[AclFilter]) -> list[Acl]:
    """Deletes the rules that match one of the filters, and returns them. Raises ResponseError."""
    request = deletions(filters)

    def deleted() -> Iterator[Acl]:
        for result in admin.ask_controller(request).filter_results:
            check("rules", result.error_code, result.error_message)
            for one in result.matching_acls:
                check("rule", one.error_code, one.error_message)
                yield Acl(
                    one.principal,
                    one.host,
                    Operation(one.operation),
                    Permission(one.permission_type),
                    ResourceType(one.resource_type),
                    one.resource_name,
                    PatternType(one.pattern_type),
                )

    return list(deleted())


def filter_of(rule: Acl) -> AclFilter:
    """The filter that only this rule matches."""
    return AclFilter(
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission,
        rule.resource_type,
        rule.resource_name,
        rule.pattern_type,
    )
