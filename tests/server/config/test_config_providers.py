"""Variables in properties: values from the environment or from files."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.server.config.broker_config import BrokerConfig, InvalidConfig
from odradek.server.config.providers import resolved

_CLASS = "org.apache.kafka.common.config.provider."


def providers(**classes: str) -> dict[str, str]:
    named = {"config.providers": ",".join(classes)}
    return named | {f"config.providers.{name}.class": _CLASS + kind for name, kind in classes.items()}


def test_a_variable_stands_for_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RACK", "r7")
    properties = {**providers(env="EnvVarConfigProvider"), "broker.rack": "eu-${env:RACK}"}
    config = BrokerConfig(properties)
    assert config.get("broker.rack") == "eu-r7"
    assert config.values.static["broker.rack"] == "eu-r7"
    assert "not known" not in caplog.text


def test_a_variable_stands_for_a_key_of_a_file_or_for_a_file_of_a_directory(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password=hush\n")
    (tmp_path / "rack").write_text("r8")
    properties = {
        **providers(file="FileConfigProvider", dir="DirectoryConfigProvider"),
        "ssl.key.password": f"${{file:{secrets}:password}}",
        "broker.rack": f"${{dir:{tmp_path}:rack}}",
    }
    config = BrokerConfig(properties)
    assert config.get("ssl.key.password").value == "hush"
    assert config.get("broker.rack") == "r8"


def test_unresolved_variable_stays_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    named = providers(env="EnvVarConfigProvider", dir="DirectoryConfigProvider")
    for text in ("${env:NOT_THERE}", "${nobody:x}", "${env}", "$env:X", f"${{dir:{tmp_path}:gone}}"):
        assert resolved({**named, "broker.rack": text})["broker.rack"] == text
    assert resolved({"broker.rack": "${env:PATH}"}) == {"broker.rack": "${env:PATH}"}


def test_providers_give_only_what_they_are_allowed_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOWED", "yes")
    monkeypatch.setenv("SECRET", "no")
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "f").write_text("a=1")
    properties = {
        **providers(env="EnvVarConfigProvider", file="FileConfigProvider", dir="DirectoryConfigProvider"),
        "config.providers.env.param.allowlist.pattern": "ALL.*",
        "config.providers.file.param.allowed.paths": str(inside),
        "config.providers.dir.param.allowed.paths": str(inside),
    }

    def value(text: str) -> str:
        return resolved({**properties, "x": text})["x"]

    assert value("${env:ALLOWED}${env:SECRET}") == "yes${env:SECRET}"
    assert value(f"${{file:{inside}/f:a}}") == "1"
    for hidden in (f"${{file:{outside}/f:a}}", f"${{file:{inside}/../outside/f:a}}", f"${{dir:{outside}:f}}"):
        assert value(hidden) == hidden
    assert value(f"${{dir:{inside}:f}}") == "a=1"
    climbing = f"${{dir:{inside}:../outside/f}}"
    assert value(climbing) == climbing


def test_a_provider_that_cannot_be_loaded_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"config\.providers\.vault\.class is com\.acme\.Vault"):
        BrokerConfig({"config.providers": "vault", "config.providers.vault.class": "com.acme.Vault"})


def test_a_file_of_variables_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"cannot read .*gone"):
        BrokerConfig({**providers(file="FileConfigProvider"), "broker.rack": f"${{file:{tmp_path}/gone:a}}"})
