"""Logins by an OpenID Connect issuer: the authorization code flow with PKCE, state and nonce, which authlib does.

The role comes from a claim of the ID token. State, nonce and the PKCE verifier wait in a signed cookie of the browser that
began the login, which no other path gets; a second browser cannot end it.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from ...client.loopback import is_loopback
from ...client.properties import read_client_properties
from ...client.reasons import reason_of
from ...client.user_errors import Misused, UserError
from .guard import CALLBACK
from .users import ADMIN, VIEWER, User

if TYPE_CHECKING:
    import ssl

    from ...protocol.json_value import JsonObject, JsonValue


COOKIE, COOKIE_MAX_AGE_S = "odradek_console_oidc", 600
#: Any value of the role claim, and none.
_ANY = "*"
_DEFAULTS = {
    "issuer.url": "",
    "client.id": "",
    "client.secret": "",
    "scope": "openid profile email",
    "name.claim": "preferred_username",
    "role.claim": "groups",
    "admin.values": "",
    "viewer.values": "",
    "redirect.uri": "",
    "ca.file": "",
}
#: Signatures with a public key. The issuer may list others, as "none".
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
#: Addresses of the metadata that browsers or this console are sent to.
_ADDRESSES = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint", "end_session_endpoint")
_TIMEOUT_S = 10.0
_LEEWAY_S = 60
_MOST_NAME = 100


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """`client_secret` is "" for public clients. `redirect_uri` "" is the address that the browser used."""

    issuer: str
    client_id: str
    client_secret: str
    scope: str
    name_claim: str
    role_claim: str
    admins: frozenset[str]
    viewers: frozenset[str]
    redirect_uri: str
    ca_file: str


def read_settings(path: Path) -> OidcSettings:
    """Reads the file of --oidc. Raises Misused."""
    given = read_client_properties(path)
    unknown = sorted(set(given) - set(_DEFAULTS))
    if unknown:
        raise Misused(f"{path}: unknown setting {unknown[0]}; known settings: {', '.join(_DEFAULTS)}")
    found = _DEFAULTS | {name: value.strip() for name, value in given.items()}
    for name in ("issuer.url", "client.id"):
        if not found[name]:
            raise Misused(f"{path}: {name} is missing")
    for name in ("issuer.url", "redirect.uri"):
        _check_address(path, name, found[name])
    if "openid" not in found["scope"].split():
        raise Misused(f"{path}: scope must contain openid")
    admins, viewers = (
        frozenset(one.strip() for one in found[name].split(",") if one.strip())
        for name in ("admin.values", "viewer.values")
    )
    if not admins and not viewers:
        raise Misused(f"{path}: give admin.values or viewer.values, the values of the claim {found['role.claim']}")
    return OidcSettings(
        found["issuer.url"].rstrip("/"),
        found["client.id"],
        found["client.secret"],
        found["scope"],
        found["name.claim"],
        found["role.claim"],
        admins,
        viewers,
        found["redirect.uri"],
        found["ca.file"],
    )


def _check_address(path: Path, name: str, address: str) -> None:
    """Codes and tokens go to it: over TLS, or within this machine."""
    if address and not _is_safe(address):
        raise Misused(f"{path}: {name} must be an https:// URL, not {address!r}")


def _is_safe(address: str) -> bool:
    if not address.isascii() or not address.isprintable():
        return False
    split = urllib.parse.urlsplit(address)
    return split.scheme == "https" or (split.scheme == "http" and is_loopback(split.hostname or ""))


class LoginRefused(Exception):
    """The issuer's response, or the lack of one, as words for the viewer."""


class SingleSignOn:
    def __init__(self, settings: OidcSettings) -> None:
        from authlib.integrations.starlette_client import OAuth

        from .bounded_transport import BoundedTransport

        self.settings = settings
        self._client = OAuth().register(
            "oidc",
            client_id=settings.client_id,
            client_secret=settings.client_secret or None,
            server_metadata_url=f"{settings.issuer}/.well-known/openid-configuration",
            client_kwargs={
                "scope": settings.scope,
                "code_challenge_method": "S256",
                "token_endpoint_auth_method": "client_secret_basic" if settings.client_secret else "none",
                "timeout": _TIMEOUT_S,
                "transport": BoundedTransport(_tls(settings.ca_file)),
            },
        )

    async def begin(self, request: Request) -> Response:
        """Sends the browser to the issuer. Raises LoginRefused."""
        try:
            await self._load_metadata()
            redirect = self.settings.redirect_uri or str(request.url.replace(path=CALLBACK, query=""))
            response: Response = await self._client.authorize_redirect(request, redirect)
        except _failures() as error:
            raise LoginRefused(f"The issuer {self.settings.issuer} cannot be used: {_words(error)}") from None
        return response

    async def end(self, request: Request) -> tuple[User, dict[str, str]]:
        """The user whom the issuer sent back, and who that is to the issuer. Raises LoginRefused."""
        try:
            metadata = await self._load_metadata()
            token = await self._client.authorize_access_token(
                request,
                leeway=_LEEWAY_S,
                claims_options={
                    "iss": {"essential": True, "value": metadata["issuer"]},
                    "aud": {"essential": True, "value": self.settings.client_id},
                },
            )
        except _failures() as error:
            raise LoginRefused(f"The issuer rejected the login: {_words(error)}") from None
        claims = token.get("userinfo")
        if not claims:
            raise LoginRefused("The issuer rejected the login: the issuer sent no ID token")
        name = str(claims.get(self.settings.name_claim) or claims.get("email") or claims.get("sub", ""))[:_MOST_NAME]
        role = role_of(claims, self.settings)
        if role is None:
            raise LoginRefused(f"{name} has no role here: the claim {self.settings.role_claim} has none of its values.")
        return User(name, role), {"issuer": self.settings.issuer, "subject": str(claims.get("sub", ""))}

    async def leave(self, request: Request) -> Response | None:
        """Ends the session at the issuer, where it has an address for that."""
        try:
            metadata = await self._load_metadata()
            if not metadata.get("end_session_endpoint"):
                return None
            after = str(request.url.replace(path="/login", query=""))
            response: Response = await self._client.logout_redirect(request, after, client_id=self.settings.client_id)
        except _failures() as error:
            raise LoginRefused(f"The issuer {self.settings.issuer} cannot be used: {_words(error)}") from None
        return response

    async def _load_metadata(self) -> JsonObject:
        metadata: JsonObject = await self._client.load_server_metadata()
        if str(metadata.get("issuer", "")).rstrip("/") != self.settings.issuer:
            raise ValueError(f"its metadata names the issuer {str(metadata.get('issuer'))[:_MOST_NAME]!r}")
        for name in _ADDRESSES:
            address = metadata.get(name)
            if address is not None and not (isinstance(address, str) and _is_safe(address)):
                raise ValueError(f"its metadata has no https:// URL as {name}")
        listed = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
        if not isinstance(listed, list):
            raise ValueError("its metadata has no list of signing algorithms")
        metadata["id_token_signing_alg_values_supported"] = [one for one in listed if one in _ALGORITHMS]
        return metadata


def role_of(claims: Mapping[str, JsonValue], settings: OidcSettings) -> str | None:
    """Returns the role for the values of the claim; None for a user without access."""
    found: object = claims
    for part in settings.role_claim.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    values = {str(one) for one in found} if isinstance(found, list) else {str(found)} if found is not None else set()
    for role, wanted in ((ADMIN, settings.admins), (VIEWER, settings.viewers)):
        if _ANY in wanted or values & wanted:
            return role
    return None


def _tls(ca_file: str) -> ssl.SSLContext | bool:
    if not ca_file:
        return True
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"ca.file {ca_file}: {reason_of(error)}") from None


def _failures() -> tuple[type[Exception], ...]:
    import httpx2
    from authlib.common.errors import AuthlibBaseError
    from joserfc.errors import JoseError

    # RuntimeError: an address that the issuer's metadata lacks. ValueError: a response that is no JSON, or no key.
    return (
        AuthlibBaseError,
        JoseError,
        httpx2.HTTPError,
        RuntimeError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
    )


def _words(error: Exception) -> str:
    if isinstance(error, LookupError | TypeError | AttributeError | RecursionError):
        return "a response is none of OpenID Connect"  # their own words are about Python
    return (str(error).partition("\n")[0] or type(error).__name__)[:200]
