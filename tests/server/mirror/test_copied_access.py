"""Rules, quotas and start offsets of share groups that an operator has copied, and users that cannot be copied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import odradek
import pytest
from odradek.admin.acls import Acl, AclFilter, create_acls, describe_acls
from odradek.admin.quotas import alter_quotas, describe_quotas
from odradek.admin.share_offsets import alter_share_offsets, share_start_offsets
from odradek.admin.users import set_user
from odradek.metadata.acls import Operation, PatternType, Permission, ResourceType

from tests.server.harness.data_path import wait_until
from tests.server.harness.mirror_pair import Pair, admin_of, odradek_command, produce

pytestmark = pytest.mark.usefixtures("sockets", "processes")

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
def guarded() -> Iterator[Pair]:
    with (
        odradek.Broker(config=AUTHORIZER) as source,
        odradek.Broker(config=AUTHORIZER) as here,
        closing(admin_of(source)) as there,
        closing(admin_of(here)) as admin,
    ):
        yield Pair(source, here, there, admin)


def rule(kind: ResourceType, name: str, pattern: PatternType = PatternType.LITERAL) -> Acl:
    return Acl("User:alice", "*", Operation.READ, Permission.ALLOW, kind, name, pattern)


def test_rules_quotas_and_share_groups_are_copied_and_users_named(guarded: Pair) -> None:
    produce(guarded.source, "orders", 5)
    followed = [rule(ResourceType.TOPIC, "orders"), rule(ResourceType.GROUP, "app")]
    followed.append(rule(ResourceType.TOPIC, "ord", PatternType.PREFIXED))
    others = [rule(ResourceType.TOPIC, "secrets"), rule(ResourceType.TRANSACTIONAL_ID, "t")]
    create_acls(guarded.there, [*followed, *others])
    alter_quotas(guarded.there, {"user": "alice"}, {"producer_byte_rate": 1000.0})
    set_user(guarded.there, "alice", "SCRAM-SHA-256", "secret", 4096)
    alter_share_offsets(guarded.there, "shared", {("orders", 0): 3})
    guarded.create_link(topics="orders", groups="app|shared", prefix="eu.")
    guarded.wait_for("eu.orders", lambda one: one.offset == 5)
    command = ("mirror", "copy", "dr", "--acls", "--quotas", "--share-groups", "-b", guarded.here.bootstrap_servers)
    planned = odradek_command(*command, "--dry-run")
    assert planned.returncode == 0 and "eu.orders" in planned.stdout, planned.stderr
    assert not describe_acls(guarded.admin, AclFilter()) and not describe_quotas(guarded.admin, {})
    done = odradek_command(*command)
    assert done.returncode == 0 and "alice (SCRAM-SHA-256)" in done.stderr, done.stderr
    found = {
        (one.resource_type, one.resource_name, one.pattern_type) for one in describe_acls(guarded.admin, AclFilter())
    }
    assert found == {(one.resource_type, f"eu.{one.resource_name}", one.pattern_type) for one in followed}
    (quota,) = describe_quotas(guarded.admin, {"user": "alice"})
    assert quota.values == {"producer_byte_rate": 1000.0}
    wait_until(lambda: share_start_offsets(guarded.admin, "eu.shared") == {("eu.orders", 0): 3})
    again = odradek_command(*command)
    assert again.returncode == 0 and "user alice" not in again.stdout and "allow read" not in again.stdout
