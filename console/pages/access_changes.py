"""Changes of ACLs, users and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...admin import acls, quotas, users
from ...client.user_errors import Misused
from ..actions import Done, Fields, required
from ..backend import Backend
from .access import _DEFAULT, _ITERATIONS, _MECHANISMS

if TYPE_CHECKING:
    pass


def _acl(form: Fields) -> acls.Acl:
    principal, resource = required(form, "principal"), required(form, "resource").upper()
    try:
        return acls.Acl(
            principal if ":" in principal else f"User:{principal}",
            form.get("host", "").strip() or "*",
            acls.Operation[required(form, "operation").upper()],
            acls.Permission[required(form, "permission").upper()],
            acls.ResourceType[resource],
            "kafka-cluster" if resource == "CLUSTER" else required(form, "name"),
            acls.PatternType[required(form, "pattern").upper()],
        )
    except KeyError as error:
        raise Misused(f"{error} is not a known value") from None


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
    try:
        value = float(text)
    except ValueError:
        raise Misused(f"a quota must be a number, not {text[:40]!r}") from None
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
