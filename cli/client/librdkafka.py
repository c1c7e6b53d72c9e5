"""Kafka's client properties as those of librdkafka, which confluent-kafka takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .security import NAMES, Security

#: Properties of Java clients, with no meaning for a command: ignored, so that one file serves Kafka's tools and these.
_JAVA_ONLY_TEXT = """
    key.serializer value.serializer key.deserializer value.deserializer interceptor.classes metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms default.api.timeout.ms max.block.ms
    max.poll.records partition.assignment.strategy partitioner.class buffer.memory client.dns.lookup
    exclude.internal.topics auto.include.jmx.reporter config.providers security.providers sasl.login.class
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.login.refresh.min.period.seconds
    sasl.login.refresh.buffer.seconds ssl.protocol ssl.enabled.protocols ssl.provider ssl.cipher.suites
    ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation
    ssl.engine.factory.class
"""
_JAVA_ONLY = frozenset(_JAVA_ONLY_TEXT.split())
#: The same thing under another name.
_RENAMED = {
    "max.request.size": "message.max.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
}


def librdkafka_settings(properties: Mapping[str, str], security: Security) -> dict[str, Any]:
    """Returns settings for a confluent-kafka client; the bootstrap servers are among `properties`."""
    made: dict[str, Any] = {}
    for name, value in properties.items():
        if name not in NAMES and name not in _JAVA_ONLY:
            made[_RENAMED.get(name, name)] = value
    made["security.protocol"] = security.protocol
    _add_tls(made, security)
    _add_sasl(made, security)
    return {name: value for name, value in made.items() if value != ""}


def _add_tls(made: dict[str, Any], security: Security) -> None:
    if not security.has_tls:
        return
    made |= {
        "ssl.ca.location": security.ca_file,
        "ssl.ca.pem": security.ca_pem,
        "ssl.certificate.location": security.certificate_file,
        "ssl.certificate.pem": security.certificate_pem,
        "ssl.key.location": security.key_file,
        "ssl.key.pem": security.key_pem,
        "ssl.key.password": security.key_password,
        "ssl.endpoint.identification.algorithm": "https" if security.verifies_host else "none",
    }


def _add_sasl(made: dict[str, Any], security: Security) -> None:
    if not security.has_sasl:
        return
    made["sasl.mechanism"] = security.mechanism
    if security.mechanism == "OAUTHBEARER":
        made |= {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": security.token_endpoint,
            "sasl.oauthbearer.client.id": security.client_id,
            "sasl.oauthbearer.client.secret": security.client_secret,
            "sasl.oauthbearer.scope": security.scope,
        }
    elif security.mechanism == "GSSAPI":
        made["sasl.kerberos.service.name"] = security.kerberos_service
    else:
        made |= {"sasl.username": security.username, "sasl.password": security.password}
