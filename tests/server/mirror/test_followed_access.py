"""Rules, quotas and start offsets of share groups that a link follows, where an operator chose so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import odradek
import pytest
from odradek.admin import mirrors
from odradek.admin.acls import Acl, AclFilter, create_acls, delete_acls, describe_acls, filter_of
from odradek.admin.quotas import alter_quotas, describe_quotas
from odradek.admin.session import Admin
from odradek.admin.share_offsets import alter_share_offsets, share_start_offsets
from odradek.admin.users import set_user
from odradek.client.errors import RequestFailed
from odradek.metadata.acls import Operation, PatternType, Permission, ResourceType
from odradek.replication.mirror.link import LinkState
from odradek.replication.mirror.made import MadeKind
from odradek.server.mirror import access

from tests.server.harness.data_path import wait_until
from tests.server.harness.mirror_pair import Pair, admin_of, odradek_command, produce

pytestmark = pytest.mark.usefixtures("sockets", "processes")

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
def guarded(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """A pair whose source has an authorizer; the parameter has the configs of the broker here."""
    with (
        odradek.Broker(config=AUTHORIZER) as source,
        odradek.Broker(config=request.param) as here,
        closing(admin_of(source)) as there,
        closing(admin_of(here)) as admin,
    ):
        yield Pair(source, here, there, admin)


def topic_rule(user: str, name: str) -> Acl:
    return Acl(f"User:{user}", "*", Operation.READ, Permission.ALLOW, ResourceType.TOPIC, name, PatternType.LITERAL)


def quotas(pair: Pair) -> list[dict[str, float]]:
    return [one.values for one in describe_quotas(pair.admin, {"user": "alice"})]


@pytest.mark.parametrize("guarded", [AUTHORIZER], indirect=True)
def test_rules_quotas_and_share_groups_are_followed(guarded: Pair) -> None:
    produce(guarded.source, "orders", 5)
    create_acls(guarded.there, [topic_rule("alice", "orders"), topic_rule("alice", "secrets")])
    alter_quotas(guarded.there, {"user": "alice"}, {"producer_byte_rate": 1000.0})
    set_user(guarded.there, "alice", "SCRAM-SHA-256", "secret", 4096)
    alter_share_offsets(guarded.there, "shared", {("orders", 0): 3})
    made = odradek_command(
        "mirror", "create", "dr", "--from", guarded.source.bootstrap_servers, "--topics", "orders", "--groups", "shared",
        "--prefix", "eu.", "--acls", "--quotas", "--share-groups", "-b", guarded.here.bootstrap_servers,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    wait_until(lambda: describe_acls(guarded.admin, AclFilter()) == [topic_rule("alice", "eu.orders")])
    wait_until(lambda: quotas(guarded) == [{"producer_byte_rate": 1000.0}])
    wait_until(lambda: share_start_offsets(guarded.admin, "eu.shared") == {("eu.orders", 0): 3}, "share offsets")
    wait_until(lambda: "SCRAM user alice (SCRAM-SHA-256)" in mirrors.read_report(guarded.admin, "dr").access)
    status = odradek_command("mirror", "status", "dr", "-b", guarded.here.bootstrap_servers)
    assert "SCRAM user alice (SCRAM-SHA-256) is not followed: no cluster shows its secret" in status.stderr
    # Changes follow; what this cluster has beside them stays.
    create_acls(guarded.admin, [topic_rule("own", "eu.orders")])
    create_acls(guarded.there, [topic_rule("bob", "orders")])
    alter_quotas(guarded.there, {"user": "alice"}, {"producer_byte_rate": 2000.0})
    set_user(guarded.admin, "alice", "SCRAM-SHA-256", "secret", 4096)
    alter_share_offsets(guarded.there, "shared", {("orders", 0): 4})
    wait_until(lambda: quotas(guarded) == [{"producer_byte_rate": 2000.0}])
    wait_until(
        lambda: (
            {one.principal for one in describe_acls(guarded.admin, AclFilter())}
            == {"User:alice", "User:bob", "User:own"}
        )
    )
    wait_until(lambda: share_start_offsets(guarded.admin, "eu.shared") == {("eu.orders", 0): 4})
    wait_until(lambda: not mirrors.read_report(guarded.admin, "dr").access)


def test_switch_copies_share_groups_last_and_a_reversal_follows_them(pair: Pair) -> None:
    here = pair.here.bootstrap_servers
    produce(pair.source, "orders", 5)
    alter_share_offsets(pair.there, "shared", {("orders", 0): 1})
    pair.create_link(topics="orders", groups="shared", share_groups="true")
    pair.wait_for("orders", lambda one: one.offset == 5)
    mirrors.set_state(pair.admin, "dr", LinkState.PAUSED, dry_run=False)
    pair.wait_for("orders", lambda one: one.state == "paused")
    alter_share_offsets(pair.there, "shared", {("orders", 0): 4})
    done = odradek_command("mirror", "switch", "dr", "--yes", "-b", here)
    assert done.returncode == 0 and not done.stderr, done.stderr
    wait_until(lambda: share_start_offsets(pair.admin, "shared") == {("orders", 0): 4})
    alter_share_offsets(pair.admin, "shared", {("orders", 0): 2})
    done = odradek_command("mirror", "reverse", "dr", "--yes", "-b", here)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: share_start_offsets(pair.there, "shared") == {("orders", 0): 2})


@pytest.mark.parametrize("guarded", [AUTHORIZER], indirect=True)
def test_deleted_rules_and_quotas_are_deleted_where_the_link_made_them(guarded: Pair) -> None:
    produce(guarded.source, "orders", 1)
    own, alice, bob = (topic_rule(user, "orders") for user in ("own", "alice", "bob"))
    create_acls(guarded.admin, [own])  # both sides have it, and it is not the link's
    create_acls(guarded.there, [own, alice, bob])
    alter_quotas(guarded.admin, {"user": "own"}, {"producer_byte_rate": 500.0})
    for user, rate in (("own", 500.0), ("alice", 1000.0), ("bob", 1000.0)):
        alter_quotas(guarded.there, {"user": user}, {"producer_byte_rate": rate})
    alter_quotas(guarded.there, {"user": "alice"}, {"consumer_byte_rate": 1000.0})
    guarded.create_link(topics="orders", acls="true", quotas="true")
    wait_until(lambda: set(describe_acls(guarded.admin, AclFilter())) == {own, alice, bob})
    wait_until(lambda: len(describe_quotas(guarded.admin, {})) == 3)
    guarded.here.restart()  # what the link has made outlives it
    delete_acls(guarded.there, [filter_of(own), filter_of(alice)])
    for user in ("own", "alice", "bob"):
        alter_quotas(guarded.there, {"user": user}, {"producer_byte_rate": None})
    alter_quotas(guarded.admin, {"user": "late"}, {"producer_byte_rate": 700.0})
    wait_until(lambda: set(describe_acls(guarded.admin, AclFilter())) == {own, bob}, "alice's rule is deleted")
    wanted = {
        "own": {"producer_byte_rate": 500.0},
        "alice": {"consumer_byte_rate": 1000.0},
        "late": {"producer_byte_rate": 700.0},
    }
    wait_until(lambda: {one.entity["user"]: one.values for one in describe_quotas(guarded.admin, {})} == wanted)
    # A rule that an operator makes again is no link's.
    create_acls(guarded.admin, [alice])
    create_acls(guarded.there, [topic_rule("carol", "orders")])
    wait_until(lambda: topic_rule("carol", "orders") in describe_acls(guarded.admin, AclFilter()))
    delete_acls(guarded.there, [filter_of(bob)])
    wait_until(lambda: bob not in describe_acls(guarded.admin, AclFilter()))
    assert {own, alice} <= set(describe_acls(guarded.admin, AclFilter()))


@pytest.mark.parametrize("guarded", [AUTHORIZER], indirect=True)
def test_verify_names_rules_and_quotas_that_differ(guarded: Pair) -> None:
    produce(guarded.source, "orders", 1)
    create_acls(guarded.there, [topic_rule("alice", "orders")])
    alter_quotas(guarded.there, {"user": "alice"}, {"producer_byte_rate": 1000.0})
    create_acls(guarded.admin, [topic_rule("own", "orders")])
    guarded.create_link(topics="orders", acls="true", quotas="true")
    wait_until(lambda: topic_rule("alice", "orders") in describe_acls(guarded.admin, AclFilter()))
    wait_until(lambda: quotas(guarded) == [{"producer_byte_rate": 1000.0}])
    guarded.wait_for("orders", lambda one: one.offset == 1)
    verify = ("mirror", "verify", "dr", "-b", guarded.here.bootstrap_servers)
    equal = odradek_command(*verify)
    assert equal.returncode == 0, equal.stderr
    mirrors.set_state(guarded.admin, "dr", LinkState.PAUSED, dry_run=False)
    guarded.wait_for("orders", lambda one: one.state == "paused")
    delete_acls(guarded.there, [filter_of(topic_rule("alice", "orders"))])
    create_acls(guarded.there, [topic_rule("bob", "orders")])
    alter_quotas(guarded.there, {"user": "alice"}, {"producer_byte_rate": None, "consumer_byte_rate": 7.0})
    different = odradek_command(*verify)
    assert different.returncode == 1 and "4 differences of rules and quotas" in different.stderr, different.stderr
    for words in (
        "rule only at the source: allow read on topic orders (literal) for User:bob",
        "rule of the link only here: allow read on topic orders (literal) for User:alice",
        "quota at the source, not here: consumer_byte_rate of user alice: 7.0",
        "quota of the link only here: producer_byte_rate of user alice: 1000.0",
    ):
        assert words in different.stderr
    assert "User:own" not in different.stderr


@pytest.mark.parametrize("guarded", [AUTHORIZER], indirect=True)
def test_rules_that_cannot_be_read_are_not_deleted_and_a_deleted_link_leaves_its_own(
    guarded: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(guarded.source, "orders", 1)
    create_acls(guarded.there, [topic_rule("alice", "orders")])
    guarded.create_link(topics="orders", acls="true")
    wait_until(lambda: describe_acls(guarded.admin, AclFilter()) == [topic_rule("alice", "orders")])
    guarded.wait_for("orders", lambda one: one.offset == 1)

    def denied(admin: Admin, wanted: AclFilter) -> list[Acl]:
        raise RequestFailed("denied")

    monkeypatch.setattr(access, "describe_acls", denied)
    wait_until(lambda: "acls" in mirrors.read_report(guarded.admin, "dr").access)
    assert describe_acls(guarded.admin, AclFilter()) == [topic_rule("alice", "orders")]
    assert mirrors.read_made(guarded.admin, "dr", MadeKind.ACLS)
    assert list(mirrors.read_links(guarded.admin)["dr"]) == ["acls", "bootstrap.servers", "topics"]
    mirrors.delete_link(guarded.admin, "dr", dry_run=False)
    assert not mirrors.read_made(guarded.admin, "dr", MadeKind.ACLS)
    assert describe_acls(guarded.admin, AclFilter()) == [topic_rule("alice", "orders")]


@pytest.mark.parametrize("guarded", [{}], indirect=True)
def test_rules_that_cannot_be_followed_are_named(guarded: Pair) -> None:
    produce(guarded.source, "orders", 1)
    create_acls(guarded.there, [topic_rule("alice", "orders")])
    guarded.create_link(topics="orders", acls="true")
    wait_until(lambda: "acls" in mirrors.read_report(guarded.admin, "dr").access)
    assert "uthorizer" in mirrors.read_report(guarded.admin, "dr").access["acls"]
    guarded.wait_for("orders", lambda one: one.offset == 1)


@pytest.mark.parametrize("guarded", [AUTHORIZER], indirect=True)
def test_nothing_is_followed_without_a_choice(guarded: Pair) -> None:
    produce(guarded.source, "orders", 1)
    create_acls(guarded.there, [topic_rule("alice", "orders")])
    alter_quotas(guarded.there, {"user": "alice"}, {"producer_byte_rate": 1000.0})
    guarded.create_link(topics="orders", groups="app")
    guarded.wait_for("orders", lambda one: one.offset == 1)
    assert not quotas(guarded) and not guarded.here.server.node.metadata.image.acls
    assert not mirrors.read_report(guarded.admin, "dr").access
