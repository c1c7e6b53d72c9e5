"""Properties files of Kafka's tools, over TLS and SASL: one file serves the admin client and the producer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.broker_process import free_port
from compat_tests.cli.commands import Done, odradek_command
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE
from compat_tests.security.secured import PLAIN_USERS, SCRAM_USERS, jaas, upsertions
from compat_tests.wire import WireClient
from tests.server.harness.certificates import Authority, pem_properties

MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
USERS = {"PLAIN": ("alice", PLAIN_USERS["alice"]), "SCRAM-SHA-512": ("sam", SCRAM_USERS["sam"])}


class Encrypted(NamedTuple):
    bootstrap: str
    authority: Path


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    directory, authority = tmp_path_factory.mktemp("cli-sasl-ssl"), Authority()
    secure, plain = free_port(), free_port()
    properties = {
        **SINGLE_NODE,
        "listeners": f"SASL_SSL://127.0.0.1:{secure},PLAINTEXT://127.0.0.1:{plain}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        **jaas("sasl_ssl"),
        **pem_properties(authority.issue(name="node"), authority, directory),
    }
    with OdradekProcess(directory, properties):
        with WireClient(f"127.0.0.1:{plain}") as client:
            client.call(upsertions(2, SCRAM_USERS), 0)
        yield Encrypted(f"127.0.0.1:{secure}", directory / "trusted.pem")


@pytest.fixture
def properties_of(encrypted: Encrypted, tmp_path: Path) -> Callable[..., Path]:
    def made(mechanism: str, password: str | None = None, **more: str) -> Path:
        user, secret = USERS[mechanism]
        lines = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{MODULES[mechanism]} required \\\n  username="{user}" password="{password or secret}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(encrypted.authority),
            "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            **more,
        }
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return file

    return made


def on(encrypted: Encrypted, *words: str, stdin: str = "") -> Done:
    return odradek_command(*words, "-b", encrypted.bootstrap, stdin=stdin)


@pytest.mark.parametrize("mechanism", list(MODULES))
def test_one_properties_file_serves_every_command(
    encrypted: Encrypted, properties_of: Callable[..., Path], topic: str, mechanism: str
) -> None:
    config = ("--command-config", str(properties_of(mechanism)))
    for words in (("topic", "create", topic), ("produce", topic), ("cluster", "quorum"), ("group", "list")):
        done = on(encrypted, *words, *config, stdin="secret record\n")
        assert done.status == 0, done.err
    assert on(encrypted, "consume", topic, "--from-beginning", *config).out == "secret record\n"


def test_certificates_may_stand_in_the_properties(
    encrypted: Encrypted, properties_of: Callable[..., Path], topic: str
) -> None:
    pem = encrypted.authority.read_text().replace("\n", "\\n\\\n")
    config = properties_of("PLAIN", **{"ssl.truststore.location": "", "ssl.truststore.certificates": pem})
    assert on(encrypted, "topic", "create", topic, "--command-config", str(config)).status == 0
    done = on(encrypted, "produce", topic, "--create", "--command-config", str(config), stdin="x\n")
    assert done.status == 0, done.err


def test_context_keeps_the_options_of_a_secured_cluster(
    encrypted: Encrypted, properties_of: Callable[..., Path], topic: str
) -> None:
    added = odradek_command(
        "context", "add", "prod", "-b", encrypted.bootstrap, "--command-config", str(properties_of("SCRAM-SHA-512"))
    )
    assert added.status == 0, added.err
    assert odradek_command("topic", "create", topic).status == 0
    assert odradek_command("produce", topic, "--create", stdin="x\n").status == 0
    assert SCRAM_USERS["sam"] not in odradek_command("context", "show", "--output", "json").out


@pytest.mark.parametrize("words", [("topic", "list"), ("consume", "t", "-o", "beginning"), ("produce", "t")])
def test_wrong_password_is_one_line_without_the_password(
    encrypted: Encrypted, properties_of: Callable[..., Path], words: tuple[str, ...]
) -> None:
    config = properties_of("PLAIN", password="wrong-hunter2")
    done = on(encrypted, *words, "--command-config", str(config), "--timeout", "5", stdin="x\n")
    assert done.status in (4, 5) and done.err.count("\n") == 1, done
    assert "hunter2" not in done.out + done.err
