"""The settings of a cluster, read into a backup (`SettingsReader`) and restored from it (`SettingsWriter`).

They are access rules, quotas, users and dynamic configs. No protocol shows secrets: of users the backup has the names, of
sensitive configs the keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ...admin.errors import NotSupported, ResponseError, check
from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError
from ...client.versions import Bounds
from ...client.wording import counted
from ...metadata import acls
from ...protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryDataRequest, OpData
from ...protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ...protocol.messages.describe_acls import DescribeAclsRequest
from ...protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from ...protocol.messages.describe_cluster import DescribeClusterRequest
from ...protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ...protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ...protocol.messages.list_config_resources import ListConfigResourcesRequest
from ...protocol.messages.quota_entities import EntityData
from .manifests import Configs, Quota, Rule, Settings, User

if TYPE_CHECKING:
    from ...admin.nodes import Broker
    from ...admin.session import Admin


_ANY = 1
_SECURITY_DISABLED = 54
_BROKER, _CLIENT_METRICS, _GROUP = 4, 16, 32
_KINDS = {_BROKER: "broker", _CLIENT_METRICS: "client-metrics", _GROUP: "group"}
#: Sources of dynamic configs: of one broker, of all brokers, of client metrics and of groups.
_OF_BROKER, _OF_ALL_BROKERS, _OF_CLIENT_METRICS, _OF_GROUP = 2, 3, 7, 8
_SET = 0
#: The version of ListConfigResources with more kinds than client metrics (Apache Kafka 4.1, KIP-1142).
_WITH_TYPES = 1
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


class SettingsReader:
    """Reads the settings of a cluster. `warnings`: what is left out, and why."""

    def __init__(self, admin: Admin, groups: Sequence[re.Pattern[str]]) -> None:
        self._admin = admin
        self._groups = groups
        self.warnings: list[str] = []

    def read(self, brokers: Sequence[Broker]) -> Settings:
        """`brokers`: of the cluster."""
        made = Settings()
        for subject, step in (
            ("ACLs", lambda: made.rules.extend(self._rules())),
            ("quotas", lambda: made.quotas.extend(self._quotas())),
            ("users", lambda: made.users.extend(self._users())),
            ("configs", lambda: made.configs.extend(self._configs(brokers))),
        ):
            self._read_if_allowed(subject, step)
        return made

    def _read_if_allowed(self, subject: str, step: Callable[[], None]) -> None:
        try:
            step()
        except ResponseError as error:
            if not error.is_denial:
                raise
            self.warnings.append(f"{subject} are not in the backup: {error}")

    def _rules(self) -> Iterator[Rule]:
        request = DescribeAclsRequest(
            resource_type_filter=_ANY,
            resource_name_filter=None,
            pattern_type_filter=_ANY,
            principal_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
        response = self._admin.ask(request)
        if response.error_code == _SECURITY_DISABLED:
            return
        check("ACLs", response.error_code, response.error_message)
        for resource in response.resources:
            for one in resource.acls:
                yield Rule(
                    one.principal,
                    one.host,
                    acls.Operation(one.operation).name.lower(),
                    acls.Permission(one.permission_type).name.lower(),
                    acls.ResourceType(resource.resource_type).name.lower(),
                    resource.resource_name,
                    acls.PatternType(resource.pattern_type).name.lower(),
                )

    def _quotas(self) -> Iterator[Quota]:
        response = self._admin.ask(DescribeClientQuotasRequest(components=[], strict=False))
        check("quotas", response.error_code, response.error_message)
        for entry in response.entries or ():
            entity = {one.entity_type: one.entity_name for one in entry.entity}
            yield Quota(entity, {one.key: one.value for one in entry.values})

    def _users(self) -> Iterator[User]:
        response = self._admin.ask(DescribeUserScramCredentialsRequest(users=None))
        check("users", response.error_code, response.error_message)
        for result in response.results:
            check(f"user {result.user}", result.error_code, result.error_message)
            for one in result.credential_infos:
                yield User(result.user, _MECHANISMS.get(one.mechanism, str(one.mechanism)), one.iterations)

    def _configs(self, brokers: Sequence[Broker]) -> Iterator[Configs]:
        yield from self._of_resource(_BROKER, "", _OF_ALL_BROKERS)
        for broker in sorted(brokers, key=lambda one: int(one.broker_id)):
            node = int(broker.broker_id)
            if broker.is_fenced:
                self.warnings.append(f"configs of broker {node} are not in the backup: it is fenced")
            else:
                yield from self._of_resource(_BROKER, str(node), _OF_BROKER, node)
        request = ListConfigResourcesRequest(resource_types=[_CLIENT_METRICS, _GROUP])
        try:
            response = self._admin.ask(request, version=Bounds(least=_WITH_TYPES))
        except NotSupported:
            self.warnings.append(
                "configs of groups and client metrics are not in the backup: the brokers do not list them"
            )
            return
        check("config resources", response.error_code)
        for one in sorted(response.config_resources, key=lambda one: (one.resource_type, one.resource_name)):
            if one.resource_type == _CLIENT_METRICS:
                yield from self._of_resource(_CLIENT_METRICS, one.resource_name, _OF_CLIENT_METRICS)
            elif not self._groups or any(pattern.fullmatch(one.resource_name) for pattern in self._groups):
                yield from self._of_resource(_GROUP, one.resource_name, _OF_GROUP)

    def _of_resource(self, kind: int, name: str, source: int, node: int | None = None) -> Iterator[Configs]:
        """The configs that `source` set."""
        asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        request = DescribeConfigsRequest(resources=[asked], include_synonyms=False, include_documentation=False)
        (result,) = self._admin.ask(request, node).results
        about = f"configs of {_KINDS[kind]} {name or 'default'}"
        check(about, result.error_code, result.error_message)
        found = [one for one in result.configs if one.config_source == source]
        secret = sorted(one.name for one in found if one.value is None)
        if secret:
            self.warnings.append(f"{about}: brokers do not show {', '.join(secret)}, so the backup lacks them")
        values = {one.name: one.value for one in found if one.value is not None}
        if values:
            yield Configs(_KINDS[kind], name, values)


class SettingsWriter:
    """Restores settings; those of the target that the backup lacks stay. `warnings`: what has to be done by hand."""

    def __init__(self, admin: Admin, settings: Settings) -> None:
        self._admin = admin
        self._settings = settings
        self.warnings: list[str] = []

    def check(self) -> None:
        """Raises UserError for settings that the brokers would not take."""
        self._write_quotas(validate_only=True)
        self._write_configs(validate_only=True)
        if self._settings.rules and self._has_authorizer():
            request = DescribeClusterRequest(include_cluster_authorized_operations=True)
            response = self._admin.ask(request)
            check("cluster", response.error_code, response.error_message)
            if not response.cluster_authorized_operations >> acls.Operation.ALTER & 1:
                raise UserError(
                    "ACLs: the user may not alter the cluster: leave them out by --no-settings", ErrorKind.DENIED
                )

    def _has_authorizer(self) -> bool:
        request = DescribeAclsRequest(
            resource_type_filter=_ANY, pattern_type_filter=_ANY, operation=_ANY, permission_type=_ANY
        )
        return bool(self._admin.ask(request).error_code != _SECURITY_DISABLED)

    def write(self) -> None:
        """Raises UserError."""
        self._write_rules()
        self._write_quotas()
        self.warnings += self._write_configs()
        if self._settings.users:
            names = ", ".join(sorted({user.name for user in self._settings.users}))
            self.warnings.append(
                f"set the passwords of users by `odradek user set NAME` where the cluster lacks them: {names}"
            )

    def _write_rules(self) -> None:
        if not self._settings.rules:
            return
        made = [
            AclCreation(
                resource_type=acls.ResourceType[rule.resource.upper()],
                resource_name=rule.name,
                resource_pattern_type=acls.PatternType[rule.pattern.upper()],
                principal=rule.principal,
                host=rule.host,
                operation=acls.Operation[rule.operation.upper()],
                permission_type=acls.Permission[rule.permission.upper()],
            )
            for rule in self._settings.rules
        ]
        for result in self._admin.ask(CreateAclsRequest(creations=made)).results:
            if result.error_code == _SECURITY_DISABLED:
                self.warnings.append(f"{counted(len(made), 'ACL')} not restored: the brokers have no authorizer")
                return
            check("ACLs", result.error_code, result.error_message)

    def _write_quotas(self, *, validate_only: bool = False) -> None:
        entries = [
            EntryDataRequest(
                entity=[EntityData(kind, name) for kind, name in quota.entity.items()],
                ops=[OpData(key, value, False) for key, value in quota.values.items()],
            )
            for quota in self._settings.quotas
        ]
        if not entries:
            return
        for response in self._admin.ask(AlterClientQuotasRequest(entries, validate_only)).entries:
            check("quotas", response.error_code, response.error_message)

    def _write_configs(self, *, validate_only: bool = False) -> list[str]:
        """Returns warnings about what is left out."""
        warnings: list[str] = []
        numbers = {kind: number for number, kind in _KINDS.items()}
        resources = []
        for one in self._settings.configs:
            if one.kind == "broker" and one.name:
                keys = ", ".join(sorted(one.values))
                warnings.append(f"configs of the single broker {one.name} are not restored: {keys}")
                continue
            entries = [AlterableConfig(key, _SET, value) for key, value in one.values.items()]
            resources.append(AlterConfigsResource(numbers[one.kind], one.name, entries))
        if not resources:
            return warnings
        for response in self._admin.ask(IncrementalAlterConfigsRequest(resources, validate_only)).responses:
            subject = f"configs of {_KINDS[response.resource_type]} {response.resource_name or 'default'}"
            check(subject, response.error_code, response.error_message)
        return warnings
