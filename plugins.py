"""Names that a class of a user's own may import. They do not move, and a test freezes their signatures.

A configuration key names such a class as `python:package.module:Name`. docs/specialists/security-classes.md lists the keys
of logins, authorization, principals, policies and quotas, docs/tiered-storage.md that of a remote store (KIP-405).
docs/specialists/stable.md says how a name changes.
"""

from __future__ import annotations

from .metadata.acls import Operation, ResourceType
from .metadata.configs import ConfigResourceType
from .metadata.image import AclImage
from .replication.controller.policies import (
    AlterConfigPolicy,
    ConfigAlteration,
    CreateTopicPolicy,
    PolicyViolation,
    TopicCreation,
)
from .server.access.authentication.mechanism import Identity
from .server.access.authentication.plain import PasswordCheck
from .server.access.authentication.token_supplier import TokenSupplier
from .server.access.authentication.token_validator import TokenRejected, TokenValidator
from .server.access.authorization.authorizer import Action, Authorizer, FollowsAcls, RequestContext
from .server.access.principals import AuthenticationContext, NoPrincipal, PrincipalBuilder
from .server.access.quotas.quota_callback import ClientQuotaCallback, FollowsQuotas, QuotaKind
from .server.config.own_classes import Configurable
from .tiers.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from .tiers.store import (
    DamagedRemoteObject,
    PartType,
    RemoteResourceNotFound,
    RemoteStorageError,
    RemoteStore,
    SegmentParts,
    StoredObject,
)

__all__ = [
    "AclImage",
    "Action",
    "AlterConfigPolicy",
    "AuthenticationContext",
    "Authorizer",
    "ClientQuotaCallback",
    "ConfigAlteration",
    "ConfigResourceType",
    "Configurable",
    "CreateTopicPolicy",
    "DamagedRemoteObject",
    "FollowsAcls",
    "FollowsQuotas",
    "Identity",
    "NoPrincipal",
    "Operation",
    "PartType",
    "PasswordCheck",
    "PolicyViolation",
    "PrincipalBuilder",
    "QuotaKind",
    "RemoteLogSegmentMetadata",
    "RemoteResourceNotFound",
    "RemoteStorageError",
    "RemoteStore",
    "RequestContext",
    "ResourceType",
    "SegmentParts",
    "StoredObject",
    "TokenRejected",
    "TokenSupplier",
    "TokenValidator",
    "TopicCreation",
    "TopicIdPartition",
]
