"""A login with tokens of a token endpoint (OAUTHBEARER), by the client credentials grant (RFC 6749, 4.4)."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from typing import TYPE_CHECKING, NamedTuple

from ..http_exchange import opened
from .errors import NoToken
from .reasons import reason_of
from .sasl import AuthenticationFailed, OAuthClient

if TYPE_CHECKING:
    import http.client

    from .sasl import SaslClient

#: Limit of a token endpoint's response. Brokers take 512 KiB of a login.
_MOST_BYTES = 256 << 10
#: Errors of a token endpoint (RFC 6749, 5.2). Its other words may have what it was sent.
_ERRORS = (
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
)
#: A token of the header that has it (RFC 6750, 2.1).
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_CREDENTIALS = "check the client id and secret"


class ClientCredentials(NamedTuple):
    """`scope`: "" for the endpoint's own. `endpoint`: its URL, without a user."""

    client_id: str
    client_secret: str
    scope: str
    endpoint: str


class TokenLogin:
    """See `odradek.client.sasl.Login`."""

    mechanism = "OAUTHBEARER"
    may_wait = True

    def __init__(self, credentials: ClientCredentials, timeout_s: float) -> None:
        self.username = credentials.client_id
        self._tokens = TokenProvider(credentials, timeout_s)

    def client(self, host: str) -> SaslClient:
        return OAuthClient(self._token, {})

    def _token(self) -> str:
        try:
            return self._tokens.token()
        except NoToken as error:
            raise AuthenticationFailed(str(error)) from None


class TokenProvider:
    """A new token for each connection: a command is short. `timeout_s`: of the whole exchange."""

    def __init__(self, credentials: ClientCredentials, timeout_s: float) -> None:
        self._credentials = credentials
        self._timeout_s = timeout_s

    def token(self) -> str:
        """Raises NoToken with the reason, which has nothing of the credentials or of a token."""
        client_id, client_secret, scope, endpoint = self._credentials
        form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        basic = b64encode(f"{client_id}:{client_secret}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}", "Content-Type": "application/x-www-form-urlencoded"}
        try:
            data = urllib.parse.urlencode(form).encode()
            request = urllib.request.Request(endpoint, data, headers)
            with opened(request, self._timeout_s, self._timeout_s) as response:
                body = response.read(_MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            raise self._failed(_status_words(error)) from None
        except (OSError, ValueError) as error:
            words = f"gives no response: {reason_of(error)}; check sasl.oauthbearer.token.endpoint.url"
            raise self._failed(words) from None
        return self._token_in(body)

    def _token_in(self, body: bytes) -> str:
        if len(body) > _MOST_BYTES:
            raise self._failed(f"returned more than {_MOST_BYTES >> 10} KiB, which is no token")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise self._failed("returned no JSON; check sasl.oauthbearer.token.endpoint.url") from None
        token = found.get("access_token") if isinstance(found, dict) else None
        if not isinstance(token, str):
            raise self._failed("returned JSON without an access_token; check sasl.oauthbearer.token.endpoint.url")
        if _TOKEN.fullmatch(token) is None:
            raise self._failed("returned an access_token with characters that no token has")
        return token

    def _failed(self, words: str) -> NoToken:
        return NoToken(f"the token endpoint {self._credentials.endpoint} {words}")


def _status_words(error: urllib.error.HTTPError) -> str:
    status = f"returned HTTP status {error.code}"
    kind = _error_in(error)
    if kind:
        return f"{status}, {kind}; {'check the scope' if kind == 'invalid_scope' else _CREDENTIALS}"
    return f"{status}; {_CREDENTIALS}" if error.code in (400, 401, 403) else status


def _error_in(response: urllib.error.HTTPError | http.client.HTTPResponse) -> str:
    try:
        found = json.loads(response.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return ""
    kind = found.get("error") if isinstance(found, dict) else None
    return kind if isinstance(kind, str) and kind in _ERRORS else ""
