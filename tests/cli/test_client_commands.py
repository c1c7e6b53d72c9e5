"""Client commands without a cluster: contexts, properties, errors, completion, and the base install."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from odradek.admin.connection import connection_of
from odradek.cli.main import main
from odradek.client.contexts import contexts_file
from odradek.client.errors import InvalidOptions
from odradek.client.librdkafka import librdkafka_settings
from odradek.client.properties import HIDDEN, shown_properties
from odradek.client.security_options import jaas_options, security_of

#: Packages that only the extras install.
EXTRAS = ("typer", "rich", "confluent_kafka")
WITHOUT_EXTRAS = (
    f"import sys; sys.modules |= dict.fromkeys({EXTRAS}); from odradek.cli.main import main; sys.exit(main())"
)


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ODRADEK_BOOTSTRAP_SERVER", raising=False)


def without_extras(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS, *words], capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("processes")
def test_base_install_names_the_extra_in_one_line() -> None:
    done = without_extras("topic", "list")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1 and "pip install 'odradek[cli] @ file://" in done.stderr


@pytest.mark.usefixtures("processes")
def test_base_install_shows_all_commands_and_runs_its_own(tmp_path: Path) -> None:
    helped = without_extras("--help")
    assert helped.returncode == 0 and "topic" in helped.stdout and "start" in helped.stdout
    formatted = without_extras("format", "--data-dir", str(tmp_path / "data"))
    assert formatted.returncode == 0, formatted.stderr


@pytest.mark.usefixtures("processes")
def test_start_imports_no_client_library() -> None:
    program = (
        "import sys; from odradek.cli.main import parser; parser(); import odradek.cli.foreground, odradek.server.broker;"
        f"print([name for name in {EXTRAS} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_contexts_are_added_used_shown_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", "add", "dev", "-b", "one:9092"]) == 0
    assert main(["context", "add", "prod", "-b", "two:9093", "-X", "sasl.password=hunter2"]) == 0
    assert "in use" in capsys.readouterr().out
    assert connection_of(None, None, None, [], 1).bootstrap == "one:9092"
    assert main(["context", "use", "prod"]) == 0
    assert connection_of(None, None, None, [], 1).bootstrap == "two:9093"
    capsys.readouterr()
    for form in ("table", "json", "jsonl", "csv", "plain"):
        assert main(["context", "show", "--output", form]) == 0
        shown = capsys.readouterr().out
        assert "hunter2" not in shown and HIDDEN in shown
    assert main(["context", "remove", "prod", "--dry-run"]) == 0
    assert main(["context", "remove", "prod"]) == 0
    assert main(["context", "use", "prod"]) == 3
    assert connection_of(None, None, None, [], 1).bootstrap == "127.0.0.1:9092"


def test_contexts_file_is_the_users_alone() -> None:
    main(["context", "add", 'a "name"', "-b", "one:9092", "-X", 'client.id="\\quoted"\u007f'])
    assert stat.S_IMODE(contexts_file().stat().st_mode) == 0o600
    assert connection_of(None, None, 'a "name"', [], 1).properties["client.id"] == '"\\quoted"\u007f'


def test_named_bootstrap_does_not_get_the_passwords_of_the_current_context() -> None:
    main(["context", "add", "prod", "-b", "two:9093", "-X", "sasl.password=hunter2"])
    assert "sasl.password" not in connection_of("other:9092", None, None, [], 1).properties
    assert connection_of("other:9092", None, "prod", [], 1).properties["sasl.password"] == "hunter2"


def test_properties_are_overlaid_in_order(tmp_path: Path) -> None:
    main(["context", "add", "prod", "-b", "two:9093", "-X", "client.id=context", "-X", "acks=1"])
    file = tmp_path / "client.properties"
    file.write_text("client.id=file\nlinger.ms=5\n")
    found = connection_of(None, file, None, ["linger.ms=7"], 1).properties
    assert (found["client.id"], found["acks"], found["linger.ms"]) == ("file", "1", "7")


def test_kafkas_security_options_become_librdkafkas() -> None:
    properties = {
        "bootstrap.servers": "one:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p\\"w;";'
        ),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/etc/ca.pem",
        "ssl.endpoint.identification.algorithm": "",
        "key.deserializer": "StringDeserializer",
        "fetch.max.wait.ms": "10",
    }
    made = librdkafka_settings(properties, security_of(properties))
    assert made == {
        "bootstrap.servers": "one:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": 'p"w;',
        "ssl.ca.location": "/etc/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
        "fetch.wait.max.ms": "10",
    }


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"security.protocol": "TLS"}, "PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "MD5"}, "SCRAM-SHA-256"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "trust.jks"}, "openssl pkcs12"),
    ],
)
def test_security_options_that_cannot_be_meant_say_what_to_do(properties: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOptions, match=words):
        security_of(properties)


def test_errors_never_repeat_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidOptions) as error:
        jaas_options("nonsense hunter2")
    assert "hunter2" not in str(error.value)
    assert main(["topic", "list", "-X", "hunter2"]) == 2
    assert main(["topic", "list", "-b", "127.0.0.1:1", "-X", "sasl.password=hunter2"]) == 4
    assert "hunter2" not in capsys.readouterr().err
    assert shown_properties({"ssl.key.password": "x", "ssl.keystore.location": "y"}) == {
        "ssl.key.password": HIDDEN,
        "ssl.keystore.location": "y",
    }


@pytest.mark.usefixtures("processes")
def test_bash_completes_commands_options_and_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    main(["context", "add", "production", "-b", "one:9092"])

    def completed(line: str) -> set[str]:
        words = line.split(" ")
        environment = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_ODRADEK_COMPLETE": "complete_bash"}
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        done = subprocess.run([sys.executable, "-m", "odradek"], capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        return set(done.stdout.split())

    assert {"topic", "start", "cluster"} <= completed("odradek ")
    assert completed("odradek topic cre") == {"create"}
    assert "--replication-factor" in completed("odradek topic create --re")
    assert completed("odradek context use prod") == {"production"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "_ODRADEK_COMPLETE" in capsys.readouterr().out
