"""Kafka's client properties as those of librdkafka, which confluent-kafka takes."""

from __future__ import annotations

from collections.abc import Mapping

from .message_text import shown
from .properties import REGISTRY_URL, REGISTRY_USER_INFO, is_of_registry, is_of_store
from .security_options import NAMES, Security
from .suggestions import did_you_mean
from .user_errors import Misused

_NO_PROPERTY = "odradek.no.property"

#: Properties of Java clients, with no meaning for a command: ignored, so that one file serves Kafka's tools and these.
_JAVA_ONLY_TEXT = """
    key.serializer value.serializer key.deserializer value.deserializer interceptor.classes metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms default.api.timeout.ms max.block.ms
    max.poll.records partition.assignment.strategy partitioner.class buffer.memory client.dns.lookup
    exclude.internal.topics auto.include.jmx.reporter config.providers security.providers sasl.login.class
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.login.refresh.min.period.seconds
    sasl.login.refresh.buffer.seconds ssl.protocol ssl.enabled.protocols ssl.provider ssl.cipher.suites
    ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation
    ssl.engine.factory.class bootstrap.controllers compression.gzip.level compression.lz4.level
    compression.zstd.level group.remote.assignor metadata.max.idle.ms partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.ignore.keys share.acknowledgement.mode share.acquire.mode
    socket.connection.setup.timeout.max.ms
"""
#: Beginnings of names of Java clients' logins.
_JAVA_PREFIXES = ("sasl.login.", "sasl.oauthbearer.", "sasl.kerberos.")
#: Names that commands are given most; the client library need not be loaded to know them.
_COMMON_TEXT = """
    acks auto.offset.reset batch.size bootstrap.servers client.id client.rack compression.type delivery.timeout.ms
    enable.idempotence fetch.max.bytes fetch.min.bytes group.id group.instance.id group.protocol isolation.level
    linger.ms max.poll.interval.ms message.max.bytes partition.assignment.strategy request.timeout.ms retries
    retry.backoff.ms session.timeout.ms socket.timeout.ms transactional.id
"""
#: Properties of the schema registry that commands read; other ones of Confluent's tools are ignored in files.
_OF_REGISTRY = (REGISTRY_URL, REGISTRY_USER_INFO)
_COMMON = frozenset(_COMMON_TEXT.split())
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


def check_names(properties: Mapping[str, str]) -> None:
    """Raises Misused for a property that neither Kafka's clients nor librdkafka have."""
    for name in properties:
        if (
            name in NAMES
            or name in _JAVA_ONLY
            or name in _RENAMED
            or name in _COMMON
            or name.startswith(_JAVA_PREFIXES)
            or is_of_store(name, properties)
            or name in _OF_REGISTRY
        ):
            continue
        if not _is_librdkafkas(name):
            hint = did_you_mean(name, NAMES | _JAVA_ONLY | _RENAMED.keys() | _COMMON | set(_OF_REGISTRY))
            raise Misused(f"-X {shown(name)} is not a property of a Kafka client{hint}")


def _is_librdkafkas(name: str) -> bool:
    """Asks the library, which has no list: of two wrong settings it names the first. No client is made."""
    from confluent_kafka import KafkaException, Producer

    try:
        Producer({name: "", _NO_PROPERTY: ""})
    except KafkaException as error:
        return not error.args[0].str().startswith(f'No such configuration property: "{name}"')
    return True


def librdkafka_settings(properties: Mapping[str, str], security: Security) -> dict[str, str]:
    """Returns settings for a confluent-kafka client; the bootstrap servers are among `properties`."""
    made: dict[str, str] = {}
    for name, value in properties.items():
        if name in NAMES or name in _JAVA_ONLY or is_of_registry(name):
            continue
        if not is_of_store(name, properties):
            made[_RENAMED.get(name, name)] = value
    made["security.protocol"] = security.protocol
    _add_tls(made, security)
    _add_sasl(made, security)
    return {name: value for name, value in made.items() if value != ""}


def _add_tls(settings: dict[str, str], security: Security) -> None:
    if not security.has_tls:
        return
    settings |= {
        "ssl.ca.location": security.ca_file,
        "ssl.ca.pem": security.ca_pem,
        "ssl.certificate.location": security.certificate_file,
        "ssl.certificate.pem": security.certificate_pem,
        "ssl.key.location": security.key_file,
        "ssl.key.pem": security.key_pem,
        "ssl.key.password": security.key_password,
        "ssl.endpoint.identification.algorithm": "https" if security.verifies_host else "none",
    }


def _add_sasl(settings: dict[str, str], security: Security) -> None:
    if not security.has_sasl:
        return
    settings["sasl.mechanism"] = security.mechanism
    if security.mechanism == "OAUTHBEARER":
        settings |= {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": security.token_endpoint,
            "sasl.oauthbearer.client.id": security.client_id,
            "sasl.oauthbearer.client.secret": security.client_secret,
            "sasl.oauthbearer.scope": security.scope,
        }
    elif security.mechanism == "GSSAPI":
        settings["sasl.kerberos.service.name"] = security.kerberos_service
    else:
        settings |= {"sasl.username": security.username, "sasl.password": security.password}
