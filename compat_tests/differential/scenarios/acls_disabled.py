"""DescribeAcls, CreateAcls, DeleteAcls, where no authorizer is configured."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, scenario

TOPIC, LITERAL, READ, ALLOW, ANY, UNKNOWN = 2, 3, 3, 3, 1, 0


def rule(**fields: Any) -> dict[str, Any]:
    given = {
        "resource_type": TOPIC,
        "resource_name": "orders",
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return given | fields


def filtered(**fields: Any) -> dict[str, Any]:
    anything = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return anything | fields


def create(*rules: dict[str, Any]) -> Step:
    return ask("CreateAcls", creations=list(rules))


def delete(*filters: dict[str, Any]) -> Step:
    return ask("DeleteAcls", filters=list(filters))


def describe(**fields: Any) -> Step:
    return ask("DescribeAcls", **filtered(**fields))


SCENARIOS = [
    scenario("CreateAcls", "without an authorizer every rule is refused", create(rule(), rule(operation=99)), create()),
    scenario("CreateAcls", "an element of type UNKNOWN closes the connection", create(rule(), rule(operation=UNKNOWN))),
    scenario("DeleteAcls", "without an authorizer every filter is refused", delete(filtered(), filtered()), delete()),
    scenario("DeleteAcls", "an element of type UNKNOWN closes the connection", delete(filtered(operation=UNKNOWN))),
    scenario("DescribeAcls", "without an authorizer there is none to ask", describe(), describe(operation=99)),
    scenario("DescribeAcls", "an element of type UNKNOWN closes the connection", describe(permission_type=UNKNOWN)),
]
