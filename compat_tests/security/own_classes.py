"""Policies, a principal builder and a quota callback that write down their arguments. OwnClasses.java has the same for
Apache Kafka. The broker imports this module.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odradek.server.access.policies import ConfigAlteration, PolicyViolation, TopicCreation
from odradek.server.access.principals import AuthenticationContext
from odradek.server.access.quotas.quota_callback import QuotaKind


def note(line: str) -> None:
    with Path(os.environ["OWN_CLASSES_LOG"]).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def shown(value: Any) -> str:
    """Returns Java's text for a value."""
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{shown(key)}={shown(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(shown, value)) + "]"
    return str(value)


class Topics:
    def configure(self, properties: Mapping[str, str]) -> None:
        note(f"configured by {properties['own.word']}")

    def validate(self, request: TopicCreation) -> None:
        note(f"topic {request.topic} {' '.join(map(shown, request[1:]))}")
        if request.topic.startswith("bad"):
            raise PolicyViolation(f"{request.topic} is a bad name")
        if request.topic.startswith("wordless"):
            raise PolicyViolation
        if request.topic.startswith("broken"):
            raise RuntimeError("s3cret")


class Configs:
    def validate(self, request: ConfigAlteration) -> None:
        note(f"config {request.resource_type.name} '{request.resource_name}' {shown(request.configs)}")
        match request.configs.get("max.message.bytes"):
            case "4242":
                raise PolicyViolation("4242 is no size")
            case "4343":
                raise PolicyViolation
            case "4444":
                raise RuntimeError("s3cret")


class Principals:
    def build(self, context: AuthenticationContext) -> str:
        login = f"{context.mechanism} {context.authorization_id}".strip()
        note(f"principal {context.listener} {context.security_protocol} {context.client_host} {login}")
        if login.endswith("nobody"):
            raise ValueError("it is nobody")
        return f"Team:{context.authorization_id}" if login else context.default_principal


class Quotas:
    def quota_tags(self, kind: QuotaKind, principal: str, client_id: str) -> Mapping[str, str]:
        note(f"quota {kind.name} {principal} '{client_id}'")
        return {"team": client_id.partition("-")[0]}

    def quota_limit(self, kind: QuotaKind, tags: Mapping[str, str]) -> float | None:
        return 10_000 if kind is QuotaKind.PRODUCE and tags["team"] == "slow" else None

    def quota_reset_required(self, kind: QuotaKind) -> bool:
        return False
