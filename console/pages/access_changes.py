"""Changes of ACLs, users and quotas."""

from __future__ import annotations

import re
from enum import Enum
from typing import TypeVar

from ...admin import acls, quotas, users
from ...client.user_errors import Misused
from ..actions import Done, Fields, required
from ..backend import Backend
from .access import _DEFAULT, _ITERATIONS, _MECHANISMS

Kind = TypeVar("Kind", bound=Enum)
#: Names that filters alone have.
_NOT_CHOSEN = ("UNKNOWN", "ANY", "MATCH")
#: Few digits: a float has the same.
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")


def _acl(form: Fields) -> acls.Acl:
    principal, resource = required(form, "principal"), required(form, "resource").upper()
    return acls.Acl(
        principal if ":" in principal else f"User:{principal}",
        form.get("host", "").strip() or "*",
        _chosen(form, "operation", acls.Operation),
        _chosen(form, "permission", acls.Permission),
        _chosen(form, "resource", acls.ResourceType),
        "kafka-cluster" if resource == "CLUSTER" else required(form, "name"),
        _chosen(form, "pattern", acls.PatternType),
    )


def _chosen(form: Fields, name: str, kinds: type[Kind]) -> Kind:
    text = required(form, name).upper()
    if text not in kinds.__members__:
        names = ", ".join(one.lower() for one in kinds.__members__ if one not in _NOT_CHOSEN)
        raise Misused(f"{name} must be one of {names}, not {text[:40]!r}")
    return kinds[text]


def create_acl(backend: Backend, form: Fields) -> Done:
    rule = _acl(form)
    with backend.links.admin() as admin:
        acls.create_acls(admin, [rule])
    return Done(f"The ACL of {rule.principal} was created.", "/access")


def delete_acl(backend: Backend, form: Fields) -> Done:
    rule = _acl(form)
    with backend.links.admin() as admin:
        acls.delete_acls(admin, [acls.filter_of(rule)])
    return Done(f"The ACL of {rule.principal} was deleted.", "/access")


def set_user(backend: Backend, form: Fields) -> Done:
    name, password, mechanism = required(form, "user"), form.get("password", ""), required(form, "mechanism")
    if not password or mechanism not in _MECHANISMS:
        raise Misused("give a password and a mechanism")
    with backend.links.admin() as admin:
        users.set_user(admin, name, mechanism, password, _ITERATIONS)
    return Done(f"The credentials of {name} were set.", "/access")


def delete_user(backend: Backend, form: Fields) -> Done:
    name, mechanism = required(form, "user"), required(form, "mechanism")
    if mechanism not in _MECHANISMS:
        raise Misused(f"{mechanism[:40]!r} is not a mechanism")
    with backend.links.admin() as admin:
        users.delete_user(admin, name, [mechanism])
    return Done(f"The {mechanism} credentials of {name} were deleted.", "/access")


def set_quota(backend: Backend, form: Fields) -> Done:
    text = required(form, "quota")
    if _NUMBER.fullmatch(text) is None:
        raise Misused(f"quota must be a number such as 1048576 or 0.5, not {text[:40]!r}")
    value = float(text)
    return _alter_quota(backend, form, value)


def delete_quota(backend: Backend, form: Fields) -> Done:
    return _alter_quota(backend, form, None)


def _alter_quota(backend: Backend, form: Fields, value: float | None) -> Done:
    key = required(form, "key")
    entity = {kind: form[kind].strip() for kind in ("user", "client-id", "ip") if form.get(kind, "").strip()}
    if not entity:
        raise Misused("give a user, a client id or an address")
    named = {kind: None if name == _DEFAULT else name for kind, name in entity.items()}
    with backend.links.admin() as admin:
        quotas.alter_quotas(admin, named, {key: value})
    return Done(f"{key} was {'deleted' if value is None else 'set'}.", "/access")
