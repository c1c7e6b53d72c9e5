"""The settings of an OpenID Connect issuer, and roles from claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.client.user_errors import Misused
from odradek.console.access.single_sign_on import OidcSettings, read_settings, role_of

from tests.docs.pages import ROOT, blocks

GIVEN = {"issuer.url": "https://issuer.example/", "client.id": "console", "admin.values": "admins, owners"}


def written(folder: Path, **more: str) -> Path:
    given = GIVEN | {name.replace("_", "."): value for name, value in more.items()}
    file = folder / "oidc.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    return file


def test_settings_have_defaults(tmp_path: Path) -> None:
    found = read_settings(written(tmp_path))
    assert (found.issuer, found.role_claim, found.client_secret) == ("https://issuer.example", "groups", "")
    assert found.admins == {"admins", "owners"} and found.viewers == frozenset()
    assert read_settings(written(tmp_path, issuer_url="http://127.0.0.1:9000")).issuer == "http://127.0.0.1:9000"


def test_settings_of_the_guide_are_read(tmp_path: Path) -> None:
    (block,) = (
        one
        for one in blocks(ROOT / "docs" / "specialists" / "console-single-sign-on.md")
        if one.language == "properties"
    )
    (tmp_path / "oidc.properties").write_text(block.text)
    found = read_settings(tmp_path / "oidc.properties")
    assert (found.role_claim, found.viewers) == ("groups", {"kafka-viewers", "staff"})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"issuer_url": "http://issuer.example"}, "https://"),
        ({"redirect_uri": "http://console.example/login/oidc/callback"}, "https://"),
        ({"client_id": ""}, "client.id is missing"),
        ({"scope": "profile"}, "openid"),
        ({"admin_values": ""}, "admin.values"),
        ({"colour": "red"}, "unknown setting colour"),
    ],
)
def test_settings_that_cannot_be_meant_are_an_error(tmp_path: Path, settings: dict[str, str], words: str) -> None:
    with pytest.raises(Misused, match=words):
        read_settings(written(tmp_path, **settings))


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({"groups": ["staff", "admins"]}, "admin"),
        ({"groups": "owners"}, "admin"),
        ({"groups": ["staff"]}, "viewer"),
        ({"groups": ["others"]}, None),
        ({"groups": []}, None),
        ({"groups": {"admins": 1}}, None),
        ({}, None),
    ],
)
def test_role_comes_from_the_claim(tmp_path: Path, claims: dict[str, Any], role: str | None) -> None:
    assert role_of(claims, settings(tmp_path, viewer_values="staff")) == role


def test_role_claim_may_be_nested_and_any_value_may_do(tmp_path: Path) -> None:
    nested = settings(tmp_path, role_claim="realm_access.roles", viewer_values="*")
    assert role_of({"realm_access": {"roles": ["admins"]}}, nested) == "admin"
    assert role_of({"realm_access": []}, nested) == "viewer"


def settings(folder: Path, **more: str) -> OidcSettings:
    return read_settings(written(folder, **more))
