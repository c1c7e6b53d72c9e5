"""Key stores of Java's keytool in each of its own formats, read by the broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.metadata.configs import BrokerValues, InvalidConfig
from odradek.server.access.java_stores import InvalidStore, read_java_store
from odradek.server.access.tls_contexts import (
    check_handshake,
    client_context,
    read_stores,
    server_context,
)
from odradek.server.access.tls_settings import read_settings

from compat_tests.security.keytool import keytool
from tests.server.harness.certificates import PASSWORD


def generate(path: Path, form: str, algorithm: str, *more: str) -> None:
    place = ("-keystore", str(path), "-storetype", form, "-storepass", PASSWORD)
    keytool("-genkeypair", "-alias", "node", "-keyalg", algorithm, "-dname", "CN=localhost", *place, *more)


@pytest.mark.parametrize(("form", "algorithm"), [("JKS", "RSA"), ("JKS", "EC"), ("JCEKS", "RSA"), ("JCEKS", "EC")])
@pytest.mark.parametrize("key_password", [PASSWORD, "of-the-key"])
def test_keytools_store_serves_a_handshake(tmp_path: Path, form: str, algorithm: str, key_password: str) -> None:
    generate(tmp_path / "store", form, algorithm, "-keypass", key_password, "-ext", "san=dns:localhost")
    properties = {
        "ssl.keystore.type": form,
        "ssl.keystore.location": str(tmp_path / "store"),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": key_password,
        "ssl.truststore.type": form,
        "ssl.truststore.location": str(tmp_path / "store"),
        "ssl.truststore.password": PASSWORD,
    }
    settings = read_settings(BrokerValues(properties), "SSL", "SSL")
    stores = read_stores(settings)
    check_handshake(server_context(settings, stores), client_context(settings, stores))
    wrong = read_settings(BrokerValues({**properties, "ssl.key.password": "wr0ng"}), "SSL", "SSL")
    with pytest.raises(InvalidConfig, match=r"is ssl\.key\.password right\?"):
        read_stores(wrong)


def test_secret_keys_of_jceks_are_said_to_be_unreadable(tmp_path: Path) -> None:
    place = ("-keystore", str(tmp_path / "store"), "-storetype", "JCEKS", "-storepass", PASSWORD)
    keytool("-genseckey", "-alias", "secret", "-keyalg", "AES", "-keysize", "128", *place)
    with pytest.raises(InvalidStore, match="neither a private key nor a certificate"):
        read_java_store((tmp_path / "store").read_bytes(), PASSWORD)
