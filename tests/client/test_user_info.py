"""Users and passwords in URLs: they log in, and no error, page or list of properties shows them."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client.properties import HIDDEN, shown_properties
from odradek.client.user_errors import UserError
from odradek.client.user_info import apart, basic_login
from odradek.console.cluster.connect import ConnectCluster
from odradek.console.cluster.node_metrics import NodeMetrics
from odradek.console.cluster.schemas import SchemaCatalog
from odradek.records.schema_registry import SchemaRegistry

from tests.hostile.token_liars import endpoint, sends

SECRET = "s3cret-91"
TEXTS = st.text(min_size=1).filter(str.isprintable)


@given(user=TEXTS, password=TEXTS, rest=st.sampled_from(["", "/", "/a@b", "?a=b@c", "/#@", ":80/x"]))
def test_user_is_apart_from_the_url(user: str, password: str, rest: str) -> None:
    written = f"{quote(user, safe='')}:{quote(password, safe='')}"
    assert apart(f"https://{written}@h{rest}") == (f"https://h{rest}", f"{user}:{password}")
    assert apart(f"https://h{rest}") == (f"https://h{rest}", "")
    assert base64.b64decode(basic_login(f"{user}:{password}")["Authorization"].removeprefix("Basic ")) == (
        f"{user}:{password}".encode()
    )


@pytest.mark.parametrize(
    "value",
    [
        "http://ann:{}@registry:8081",
        "jdbc:postgresql://ann:{}@db/orders",
        "jdbc:postgresql://db/orders?user=ann&password={}&ssl=true",
        "user=ann; Password='{}'",
        'required username="ann" password="{}";',
        "apikey={},a=b",
    ],
)
@pytest.mark.parametrize("name", ["schema.registry.url", "connection.url", "transforms.x"])
def test_secret_within_a_value_is_hidden(name: str, value: str) -> None:
    shown = shown_properties({name: value.format(SECRET)})[name]
    assert SECRET not in shown and HIDDEN in shown
    assert shown_properties({name: "http://registry:8081/a?b=c"})[name] == "http://registry:8081/a?b=c"


@pytest.mark.usefixtures("sockets")
def test_services_get_the_user_and_show_none() -> None:
    with endpoint(sends(200, b"{}")) as served:
        url = served.url.replace("http://", f"http://ann:{SECRET}@")
        connect, metrics, schemas = ConnectCluster(url), NodeMetrics([url]), SchemaCatalog(url, None)
        connect.connectors()
        metrics.read()
        SchemaRegistry(url).ask("GET", "/subjects")
        login = basic_login(f"ann:{SECRET}")["Authorization"]
        assert served.seen == [login] * 3
    shown = [connect.url, *metrics.addresses, schemas.url, *metrics.read().missing.values()]
    for failing in (connect.connectors, schemas.subjects, lambda: SchemaRegistry(url).ask("GET", "/subjects")):
        with pytest.raises(UserError) as failed:
            failing()
        shown.append(str(failed.value))
    assert not any(SECRET in one for one in shown), shown
