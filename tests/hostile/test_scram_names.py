"""Names and passwords of SCRAM users: each user that is set logs in, by both kinds of clients; other names are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.admin.connection import Connection
from odradek.admin.errors import InvalidOptions
from odradek.admin.users import describe_users, set_user

from compat_tests.cli.commands import odradek_command

pytestmark = pytest.mark.usefixtures("sockets")

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
LISTENERS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
}
#: Characters that SCRAM escapes, that could end a part of a message, or that look like another name.
NAMES = ("a,b", "a=b", "a=2Cb", "=3D,", "n,,n=x,r=y", "a:b", "User:a", "-x", "'; --", "a b", ".", "x" * 10_000)
PASSWORD = "pa,ss=w\u00f6rd \u00a0x"


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[Connection, str]]:
    with odradek.Broker(config=LISTENERS) as broker:
        at = {one.name: f"127.0.0.1:{one.endpoint.port}" for one in broker.server.network.listeners}
        yield Connection({"bootstrap.servers": at["PLAINTEXT"]}), at["SASL_PLAINTEXT"]


@pytest.mark.parametrize("name", NAMES)
def test_user_with_an_odd_name_logs_in_and_no_other_password_does(ports: tuple[Connection, str], name: str) -> None:
    connection, address = ports
    for mechanism in MECHANISMS:
        with connection.admin() as admin:
            set_user(admin, name, mechanism, PASSWORD, 4096)
        for password, status in ((PASSWORD, 0), (PASSWORD + "x", 5)):
            properties = {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.username": name,
                "sasl.password": password,
            }
            options = [word for key, value in properties.items() for word in ("-X", f"{key}={value}")]
            for words in (("topic", "list"), ("produce", "orders", "--create")):
                done = odradek_command(*words, *options, "-b", address, stdin="a\n")
                assert done.status == status, (mechanism, password, done)
                assert len(done.err) < 3000 and PASSWORD not in done.err, done


@given(name=st.text(min_size=1).filter(lambda one: not one.isascii()))
def test_name_that_no_login_can_have_is_refused(ports: tuple[Connection, str], name: str) -> None:
    with ports[0].admin() as admin:
        known = describe_users(admin)
        with pytest.raises(InvalidOptions, match="ASCII alone") as refused:
            set_user(admin, name, MECHANISMS[0], PASSWORD, 4096)
        assert "\n" not in str(refused.value) and describe_users(admin) == known


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_command_refuses_the_name(ports: tuple[Connection, str], tmp_path: Path, dry: tuple[str, ...]) -> None:
    (tmp_path / "password").write_text(PASSWORD)
    words = ("user", "set", "J\u00fcrgen", "--password-file", str(tmp_path / "password"), *dry)
    done = odradek_command(*words, "-b", ports[0].bootstrap)
    assert done.status == 2 and "'J\u00fcrgen' could not log in" in done.err and PASSWORD not in done.err, done
