"""Masks hold for random documents, dresses and masks in every form: no response of the console has a byte of a secret."""

from __future__ import annotations

import asyncio
import html
import io
import random
import urllib.parse
from collections.abc import Iterator
from typing import Any

import odradek
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.admin.connection import Connection
from odradek.console.application import application
from odradek.console.backend import Backend
from odradek.console.cluster.decoding import FORMS
from odradek.console.cluster.filters import filters
from odradek.console.cluster.masks import Masks
from odradek.console.cluster.query import Query
from odradek.console.cluster.records import RecordMaker
from odradek.console.pages.downloads import FORMATS
from odradek.console.settings import Settings

from tests.harness.examples import examples
from tests.hostile.harness.console_requests import Reply, ask
from tests.hostile.masked_records import DRESSES, MASKS, random_record
from tests.hostile.shown_records import Message, everything_of, leaks

WITHOUT_REGISTRY = [one for one in FORMS if one not in ("avro", "protobuf")]
SEED = 11


@given(
    st.sampled_from(sorted(MASKS)), st.sampled_from(sorted(DRESSES)), st.sampled_from(WITHOUT_REGISTRY), st.integers()
)
@settings(max_examples=examples(600), deadline=None)
def test_record_of_any_form_has_no_byte_of_the_secret(mask: str, dress: str, form: str, seed: int) -> None:
    made = random_record(random.Random(seed), mask, dress)
    maker = RecordMaker(Connection({}), Masks([mask]), None)
    query = Query("t", key_form=form, value_form=form)
    message = Message(made)
    record = maker.record(message, query)
    assert record.raw is None
    assert leaks(everything_of(record), made.secret) == []
    for search in (
        Query("t", value=made.secret),
        Query("t", key=made.secret),
        Query("t", header=f"trace=.*{made.secret}"),
        Query("t", where=f'$..[?@ == "{made.secret}"]'),
    ):
        assert not all(passes(record, message) for passes in filters(search)), search


@pytest.fixture(scope="module")
def cluster() -> Iterator[odradek.Broker]:
    with odradek.Broker() as broker:
        yield broker


def addresses(offset: int, secret: str) -> Iterator[str]:
    """Every route that shows records, in every form, and searches for the secret."""
    search = f"/topics/{{}}/messages?partition=0&limit=500&order=oldest&from={offset}&until={offset + 1}"
    for form in WITHOUT_REGISTRY:
        forms = f"&value_form={form}&key_form={form}"
        yield f"{search}{forms}&column=password&column=card.number&column=a"
        yield f"/topics/{{}}/messages/0/{offset}?value_form={form}&key_form={form}"
        yield from (f"{search}{forms}&download={name}" for name in FORMATS.values())
    yield f"{search}&download=json&column=old_PassWord&column=card.number&column=payload"
    yield f"{search}&sort=records.Value&desc=yes&filter-records={secret[:8]}"
    yield f"{search}&slice=1"
    yield f"/share/{{}}?partition=0&from={offset}"
    for field, text in (
        ("value", secret),
        ("key", secret),
        ("header", f"trace={secret}"),
        ("where", f'@..* == "{secret}"'),
    ):
        yield f"{search}&{field}={urllib.parse.quote(text)}"


def text_of(reply: Reply, address: str) -> str:
    if "download=parquet" in address and reply.status == 200:
        return str(parquet.read_table(io.BytesIO(reply.body)).to_pylist())
    return html.unescape(reply.body.decode())


def without_the_request(text: str, secret: str, address: str) -> str:
    """The page shows what its reader typed."""
    typed = secret in address or secret[:8] in address
    return text[text.find('id="records-rows"') :].split("</table>")[0] if typed else text


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("mask", sorted(MASKS))
def test_no_route_has_a_byte_of_the_secret(cluster: odradek.Broker, mask: str) -> None:
    rng = random.Random(SEED)
    records = [random_record(rng, mask, dress) for dress in sorted(DRESSES)]
    topic = f"t-{sorted(MASKS).index(mask)}"
    view = cluster.topic(topic)
    for one in records:
        view.send(one.value, key=one.key, headers=one.headers)
    connection = Connection({"bootstrap.servers": cluster.bootstrap_servers})
    app: Any = application(Backend(connection, Settings(masks=(mask,))))

    async def walk() -> list[object]:
        found: list[object] = []
        # Each dress with some addresses: all of them take minutes.
        for offset, one in enumerate(records):
            for address in rng.sample(list(addresses(offset, one.secret)), 6):
                reply = await ask(app, "GET", address.format(topic), hx_request=rng.choice(["true", "false"]))
                if reply.status >= 500:
                    found.append((one.dress, address, reply.status))
                text = without_the_request(text_of(reply, address), one.secret, address)
                found += [(one.dress, address, trace) for trace in leaks(text, one.secret)]
        return found

    assert asyncio.run(walk()) == []
