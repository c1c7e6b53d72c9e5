"""Kafka's client properties as settings of kafka-python's admin client, and as logins of `odradek.client`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .errors import DENIED, CommandError, Misused
from .properties import Security

if TYPE_CHECKING:
    import ssl

    from kafka.net.compat import KafkaNetClient

    from ...client.sasl import Login, SaslClient

#: Limit of a token endpoint's response.
_MOST_TOKEN_BYTES = 1 << 20


def admin_settings(properties: Mapping[str, str], security: Security, timeout_s: float) -> dict[str, object]:
    """Returns keyword arguments of `kafka.KafkaAdminClient`."""
    timeout_ms = int(timeout_s * 1000)
    made: dict[str, object] = {
        "bootstrap_servers": [one.strip() for one in properties["bootstrap.servers"].split(",") if one.strip()],
        "client_id": properties.get("client.id", "odradek-cli"),
        "request_timeout_ms": timeout_ms,
        "bootstrap_timeout_ms": timeout_ms,
        "reconnect_backoff_max_ms": 1000,
        "metadata_max_age_ms": 1000,  # a broker that dies is not asked for long
        "security_protocol": security.protocol,
    }
    if security.has_tls:
        made["ssl_context"] = ssl_context(security)
        made["ssl_check_hostname"] = security.verifies_host
    if security.has_sasl:
        made |= _sasl(security)
    return made


def _sasl(security: Security) -> dict[str, object]:
    made: dict[str, object] = {"sasl_mechanism": security.mechanism}
    if security.mechanism == "OAUTHBEARER":
        made["sasl_oauth_token_provider"] = _TokenProvider(security)
    elif security.mechanism == "GSSAPI":
        made["sasl_kerberos_service_name"] = security.kerberos_service
    else:
        made |= {"sasl_plain_username": security.username, "sasl_plain_password": security.password}
    return made


def network_client(**settings: object) -> KafkaNetClient:
    """The network client of kafka-python that asks another broker where one hangs, and without the 10 KB of figures that it
    keeps for each connection.
    """
    from kafka.net.compat import KafkaNetClient
    from kafka.net.selector import NetworkSelector

    from .hanging import Manager

    without = {**settings, "metrics": None}
    net = NetworkSelector(**without)
    return KafkaNetClient(net, Manager(net, **without))


def login_of(security: Security) -> Login | None:
    """The login of `odradek.client`; None where the protocol has none."""
    if not security.has_sasl:
        return None
    if security.mechanism == "GSSAPI":
        from ...client.kerberos import KerberosLogin

        return KerberosLogin("", None, security.kerberos_service, "")
    if security.mechanism == "OAUTHBEARER":
        return TokenLogin(security)
    from ...client.sasl import PasswordLogin

    return PasswordLogin(security.mechanism, security.username, security.password)


class TokenLogin:
    """A login with a token of the token endpoint (OAUTHBEARER), see `odradek.client.sasl.Login`."""

    mechanism = "OAUTHBEARER"
    may_wait = True

    def __init__(self, security: Security) -> None:
        self.username = security.client_id
        self._tokens = _TokenProvider(security)

    def client(self, host: str) -> SaslClient:
        from ...client.sasl import OAuthClient

        return OAuthClient(self._token, {})

    def _token(self) -> str:
        from ...client.sasl import AuthenticationFailed

        try:
            return self._tokens.token()
        except CommandError as error:
            raise AuthenticationFailed(str(error)) from None


def connection_arguments(security: Security) -> Callable[[str, str], dict[str, object]]:
    """Arguments of asyncio's `create_connection` for the TLS of a host."""
    if not security.has_tls:
        return lambda listener, host: {}
    context = ssl_context(security)
    return lambda listener, host: {"ssl": context, "server_hostname": host}


def ssl_context(security: Security) -> ssl.SSLContext:
    import ssl

    try:
        context = ssl.create_default_context(cafile=security.ca_file or None, cadata=security.ca_pem or None)
        context.check_hostname = security.verifies_host
        if security.certificate_file:
            context.load_cert_chain(security.certificate_file, security.key_file or None, security.key_password or "")
        elif security.certificate_pem:
            _load_pem(context, security)
    except (OSError, ssl.SSLError, ValueError) as error:
        raise Misused(
            f"the TLS files cannot be used: {error}; check ssl.truststore.*, ssl.keystore.* and passwords"
        ) from None
    return context


def _load_pem(context: ssl.SSLContext, security: Security) -> None:
    """Python's ssl module takes a client's key from files only: this one has mode 0600 and is deleted at once."""
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{security.key_pem}\n{security.certificate_pem}\n")
        file.flush()
        context.load_cert_chain(file.name, password=security.key_password or "")


class _TokenProvider:
    """A token by the client credentials grant (RFC 6749, 4.4). A new one for each connection: a command is short."""

    def __init__(self, security: Security) -> None:
        self._security = security

    def token(self) -> str:
        # Only a login by tokens needs them, and every command would wait 20 ms for them.
        import json
        import urllib.parse
        import urllib.request
        from base64 import b64encode

        security = self._security
        form = {"grant_type": "client_credentials"} | ({"scope": security.scope} if security.scope else {})
        basic = b64encode(f"{security.client_id}:{security.client_secret}".encode()).decode()
        request = urllib.request.Request(
            security.token_endpoint,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {basic}", "Content-Type": "application/x-www-form-urlencoded"},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return str(json.loads(response.read(_MOST_TOKEN_BYTES))["access_token"])
        except (OSError, ValueError, KeyError, TypeError):
            raise CommandError(
                f"{security.token_endpoint} returned no token: check the client id and secret", DENIED
            ) from None

    def extensions(self) -> dict[str, str]:
        return {}
