"""Every table equals Apache's specification: fields, order, types, versions, nullability, defaults, tags."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.protocol.apis import APIS
from odradek.protocol.schema import NEVER, ArrayOf, Field, Message, Scalar, Versions, WireType

from tests.protocol.tables import OWN, messages, snake_case, specifications

pytestmark = pytest.mark.usefixtures("java_tools")

Spec = dict[str, Any]


def test_every_specification_has_table_and_vice_versa() -> None:
    assert set(messages()) - OWN == set(specifications())


def test_every_message_equals_its_specification() -> None:
    faults: list[str] = []
    for name, spec in specifications().items():
        made = messages()[name]
        faults += compare(name, Versions.parse(spec["validVersions"]), made.SCHEMA.versions)
        faults += compare(name, Versions.parse(spec["flexibleVersions"]), made.SCHEMA.flexible)
        faults += compare(f"{name} key", spec.get("apiKey"), made.SCHEMA.key)
        structs = {struct["name"]: struct["fields"] for struct in spec.get("commonStructs", ())}
        faults += fields_differ(name, made, spec["fields"], structs, made.SCHEMA.versions)
    assert not faults, "\n".join(faults)


def test_every_api_equals_its_specification() -> None:
    by_key = {spec["apiKey"]: spec for spec in specifications().values() if spec["type"] == "request"}
    assert set(by_key) == set(APIS)
    for key, api in APIS.items():
        spec = by_key[key]
        assert spec["name"] == api.name + "Request"
        assert Versions.parse(spec["validVersions"]) == api.versions
        assert Versions.parse(spec["flexibleVersions"]) == api.flexible
        assert set(spec["listeners"]) == api.listeners
        unstable = spec.get("latestVersionUnstable", False)
        assert api.latest_stable_version == api.versions.high - bool(unstable)
        assert (api.request.SCHEMA.key, api.response.SCHEMA.key) == (key, key)


def compare(where: str, expected: object, found: object) -> list[str]:
    return [] if expected == found else [f"{where}: {found}, the specification says {expected}"]


def fields_differ(
    where: str, made: type[Message], specs: list[Spec], structs: dict[str, list[Spec]], versions: Versions
) -> list[str]:
    faults = compare(
        f"{where} fields", [snake_case(s["name"]) for s in specs], [field.name for field in made.SCHEMA.fields]
    )
    if faults:
        return faults
    for spec, field in zip(specs, made.SCHEMA.fields, strict=True):
        at = f"{where}.{field.name}"
        # A tagged field may omit `versions` or `taggedVersions`.
        carried = within(Versions.parse(spec.get("versions", spec.get("taggedVersions"))), versions)
        faults += compare(f"{at} versions", carried, within(field.versions, versions))
        nullable = within(Versions.parse(spec.get("nullableVersions", "none")), carried)
        faults += compare(f"{at} nullable", nullable, within(field.nullable, carried))
        faults += compare(f"{at} tag", spec.get("tag"), field.tag)
        tagged = within(Versions.parse(spec.get("taggedVersions", "none")), carried)
        faults += compare(f"{at} tagged", tagged, within(field.tagged, carried))
        faults += compare(f"{at} compact", spec.get("flexibleVersions") != "none", field.may_be_compact)
        faults += compare(f"{at} default", default_of(spec), shown_default(field))
        faults += type_differs(at, field.type, spec["type"], spec, structs, carried)
    return faults


def type_differs(
    at: str, found: WireType, name: str, spec: Spec, structs: dict[str, list[Spec]], versions: Versions
) -> list[str]:
    if name.startswith("[]"):
        if not isinstance(found, ArrayOf):
            return [f"{at} is not an array"]
        return type_differs(at, found.element, name[2:], spec, structs, versions)
    if isinstance(found, ArrayOf):
        return [f"{at} is an array"]
    if isinstance(found, Scalar):
        return compare(f"{at} type", name, found.name)
    fields = spec.get("fields") or structs[name]
    return fields_differ(at, found, fields, structs, versions)


def within(inner: Versions, outer: Versions) -> Versions:
    """Returns the versions in both. A field's versions after the end of its structure's are ignored."""
    low, high = max(inner.low, outer.low), min(inner.high, outer.high)
    return Versions(low, high) if low <= high else Versions(NEVER, NEVER - 1)


def default_of(spec: Spec) -> object:
    """Returns a field's default as Apache's generator interprets it."""
    # A JSON null means no default; the string "null" is None.
    text, kind = str("" if spec.get("default") is None else spec["default"]), spec["type"]
    if text == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "bool":
        return text.lower() == "true"
    if kind in ("int8", "int16", "uint16", "int32", "uint32", "int64"):
        return int(text or "0", 0)
    if kind == "float64":
        return float(text or "0")
    return {"string": text, "bytes": b"", "uuid": bytes(16), "records": None}.get(kind, "a structure")


def shown_default(field: Field) -> object:
    return "a structure" if isinstance(field.default, type) else field.fresh_default()
