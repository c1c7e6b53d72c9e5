"""TLS files of a client that cannot be used: one line with the file, the reason and the property, and no secret in it.

Files are generated: each part of a store is missing, damaged, encrypted, of another kind or another owner.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client.errors import InvalidOptions
from odradek.client.security_options import security_of
from odradek.client.tls_files import ssl_context

from compat_tests.cli.commands import odradek_command
from tests.server.harness.certificates import PASSWORD, Authority, Identity, pem_properties

MISUSED, DENIED = 2, 5
WRONG = f"wrong-{PASSWORD}"
#: The ways in which a key, a certificate and an authority may come, and how each may be wrong.
KEYS = ("good", "encrypted", "of another", "damaged", "missing")
CHAINS = ("good", "damaged", "missing")
AUTHORITIES = ("good", "damaged", "missing", "empty", "binary")
PASSWORDS = ("", PASSWORD, WRONG)


class Stores:
    def __init__(self) -> None:
        self.authority = Authority()
        self.own, self.other = (self.authority.issue(f"{name}.example", name=name) for name in ("own", "other"))
        damaged_key = self.own.plain_key_pem.replace(b"M", b"A")
        damaged_chain = self.own.chain_pem.replace(b"M", b"A")
        self.keys = dict(
            zip(
                KEYS,
                (self.own.plain_key_pem, self.own.encrypted_key_pem, self.other.plain_key_pem, damaged_key, b""),
                strict=True,
            )
        )
        self.chains = dict(zip(CHAINS, (self.own.chain_pem, damaged_chain, b""), strict=True))
        good = self.authority.pem_text.encode()
        self.authorities = dict(
            zip(AUTHORITIES, (good, good.replace(b"M", b"A"), b"# none\n", b"", bytes(range(256))), strict=True)
        )


@pytest.fixture(scope="module")
def stores() -> Stores:
    return Stores()


@given(
    key=st.sampled_from(KEYS),
    chain=st.sampled_from(CHAINS),
    trusted=st.sampled_from(AUTHORITIES),
    password=st.sampled_from(PASSWORDS),
    as_text=st.booleans(),
    in_one=st.booleans(),
)
def test_store_is_used_or_refused_with_its_reason(
    stores: Stores,
    tmp_path_factory: pytest.TempPathFactory,
    key: str,
    chain: str,
    trusted: str,
    password: str,
    as_text: bool,
    in_one: bool,
) -> None:
    folder = tmp_path_factory.mktemp("stores")
    (folder / "trusted.pem").write_bytes(stores.authorities[trusted])
    properties = {"security.protocol": "SSL", "ssl.ca.location": str(folder / "trusted.pem")}
    key_pem, chain_pem = stores.keys[key], stores.chains[chain]
    parts = {"certificate": key_pem + chain_pem} if in_one else {"certificate": chain_pem, "key": key_pem}
    for name, pem in parts.items():
        (folder / f"{name}.pem").write_bytes(pem)
        where, value = ("pem", pem.decode()) if as_text else ("location", str(folder / f"{name}.pem"))
        properties[f"ssl.{name}.{where}"] = value
    properties["ssl.key.password"] = password
    opens = key == "good" or (key == "encrypted" and password == PASSWORD)
    is_usable = trusted == "good" and chain == "good" and opens
    if as_text and chain == "missing" and key == "missing":
        is_usable = trusted == "good"  # no property has a text: there is no certificate
    elif as_text and key == "missing" and not in_one:
        is_usable = False
    security = security_of(properties)
    if is_usable:
        ssl_context(security)
        return
    with pytest.raises(InvalidOptions) as failed:
        ssl_context(security)
    words = str(failed.value)
    assert "\n" not in words and "_ssl.c" not in words and "PEM lib" not in words, words
    assert "ssl." in words and PASSWORD not in words and "PRIVATE KEY" not in words, words
    if trusted != "good":
        assert str(folder / "trusted.pem") in words, words


@pytest.fixture(scope="module")
def broker(stores: Stores, tmp_path_factory: pytest.TempPathFactory) -> Iterator[odradek.Broker]:
    """A broker that takes clients with a certificate of its authority alone."""
    folder = tmp_path_factory.mktemp("broker")
    config = {
        **pem_properties(stores.authority.issue(name="node"), stores.authority, folder),
        "listeners": "SSL://127.0.0.1:0",
        "inter.broker.listener.name": "SSL",
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
        "ssl.client.auth": "required",
    }
    with odradek.Broker(config=config) as running:
        yield running


#: One command of each client, and those that wait for a cluster or wrap its errors.
COMMANDS = (
    "topic list",
    "group list",
    "produce orders",
    "consume orders -o beginning",
    "record orders --file FOLDER/records.jsonl",
    "migrate check",
    "doctor",
    "backup FOLDER/backup",
    "mirror list",
    "bench produce --count 1",
    "top --iterations 1",
)
#: The status, and words of the reason, of what is wrong with a client's certificate.
WRONG_CLIENTS = {
    "none": (DENIED, "it requires a certificate, and was sent none: set ssl.keystore.location"),
    "of another authority": (DENIED, "it does not trust the authority of the certificate that it was sent"),
    "a wrong password": (MISUSED, "ssl.key.password does not open its private key"),
    "another key": (MISUSED, "the private key is not that of the certificate"),
    "no key": (MISUSED, "it has no private key in PEM"),
    "PKCS#12": (MISUSED, "openssl pkcs12"),
    "PKCS#12 as PEM": (MISUSED, "openssl pkcs12"),
}


def store_of(wrong: str, stores: Stores, folder: Path) -> dict[str, str]:
    path = folder / "client.pem"
    own: Identity = Authority().issue("x.example", name="x") if wrong == "of another authority" else stores.own
    own.pem(path, encrypted=wrong == "a wrong password")
    if wrong == "another key":
        path.write_bytes(stores.other.plain_key_pem + own.chain_pem)
    elif wrong == "no key":
        path.write_bytes(own.chain_pem)
    elif wrong.startswith("PKCS#12"):
        path = own.pkcs12(folder / "client.p12")
    kind = "PKCS12" if wrong == "PKCS#12" else "PEM"
    store = {"ssl.keystore.location": str(path), "ssl.keystore.type": kind}
    return {} if wrong == "none" else {**store, "ssl.key.password": WRONG, "ssl.keystore.password": WRONG}


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("command", COMMANDS)
def test_command_ends_in_one_line_with_the_reason(
    broker: odradek.Broker, stores: Stores, tmp_path: Path, command: str
) -> None:
    trusted = {"security.protocol": "SSL", "ssl.ca.location": str(stores.authority.pem(tmp_path / "trusted.pem"))}
    for wrong, (status, words) in WRONG_CLIENTS.items():
        properties = trusted | store_of(wrong, stores, tmp_path)
        options = [word for name, value in properties.items() for word in ("-X", f"{name}={value}")]
        done = odradek_command(
            *command.replace("FOLDER", str(tmp_path)).split(), *options, "-b", broker.bootstrap_servers, stdin="a\n"
        )
        line = next((one for one in done.err.splitlines() if one.startswith("odradek: ")), "")
        assert done.status == status and words in line, (wrong, done)
        assert done.out == "" and done.err.count("odradek: ") == 1 and PASSWORD not in done.err, (wrong, done)


@pytest.mark.usefixtures("sockets")
def test_store_with_key_and_certificate_serves_both_kinds_of_clients(
    broker: odradek.Broker, stores: Stores, tmp_path: Path
) -> None:
    """librdkafka takes the key from nowhere but where it is named; Python's ssl takes it from the certificate's file."""
    own = stores.own.pem(tmp_path / "client.pem")
    ca = stores.authority.pem(tmp_path / "trusted.pem")
    properties = {"security.protocol": "SSL", "ssl.ca.location": str(ca), "ssl.certificate.location": str(own)}
    options = [word for name, value in properties.items() for word in ("-X", f"{name}={value}")]
    options += ["-b", broker.bootstrap_servers]
    assert odradek_command("produce", "orders", "--create", *options, stdin="a\n").status == 0
    assert odradek_command("consume", "orders", "-o", "beginning", "--count", "1", *options).out.rstrip() == "a"
    assert odradek_command("topic", "list", *options).status == 0


#: By what is wrong with the files of a server: its certificate and its key, by their names in `Stores`, and the reason.
WRONG_SERVERS = {
    "no certificate": ("missing", "good", "is empty"),
    "a damaged certificate": ("damaged", "good", "is damaged"),
    "no key": ("good", "missing", "is empty"),
    "a damaged key": ("good", "damaged", "its private key is damaged"),
    "the key of another": ("good", "of another", "is not that of the certificate"),
    "a key with a password": ("good", "encrypted", "its private key is encrypted"),
}


@pytest.mark.parametrize("server", ["console", "query"])
def test_server_names_what_is_wrong_with_its_files(stores: Stores, tmp_path: Path, server: str) -> None:
    """Comes before anything else: no prompt for a password, no other process, and no lines of a library."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    options = ["--tls-certificate", str(certificate), "--tls-key", str(key), "-b", "127.0.0.1:1"]
    words = ["console", "--port", "0"] if server == "console" else ["query", "--serve", "127.0.0.1:0"]
    for wrong, (chain, own, reason) in WRONG_SERVERS.items():
        certificate.write_bytes(stores.chains[chain])
        key.write_bytes(stores.keys[own])
        done = odradek_command(*words, *options)
        assert done.status == MISUSED and reason in done.err and "--tls-" in done.err, (wrong, done)
        assert done.err.count("\n") == 1 and done.out == "" and PASSWORD not in done.err, (wrong, done)
