"""TLS to an OAuth issuer: the `ssl.*` options of the login module, as Kafka's JaasOptionsUtils takes them (KIP-768)."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from ....metadata.configs import BrokerValues
from ..tls.contexts import client_context, read_stores
from ..tls.settings import read_settings

_PREFIX = "ssl."
_LISTENER = "ISSUER"


def ssl_options(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a login module that are about TLS."""
    return {name: text for name, text in options.items() if name.startswith(_PREFIX)}


def issuer_context(url: str, options: Mapping[str, str]) -> ssl.SSLContext | None:
    """Returns the context of connections to the issuer; None for that of the system. Raises InvalidConfig.

    The host name is checked whatever `ssl.endpoint.identification.algorithm` is, as Java does for HTTPS.
    """
    found = ssl_options(options)
    if not found or not url.lower().startswith("https:"):
        return None
    values = BrokerValues(found)
    settings = read_settings(values, _LISTENER, "SSL")
    context = client_context(settings, read_stores(settings))
    context.check_hostname = True
    return context
