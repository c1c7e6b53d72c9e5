"""Every action of the console in Chromium, verified through other clients, in an order in which each has something to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from compat_tests.console.browser import Browser
from compat_tests.console.filled_cluster import FilledCluster, watermarks
from compat_tests.console.harness.dead_letters import reloaded
from compat_tests.console.harness.hanging_transaction import TOPIC
from compat_tests.console.process import DEADLINE_S
from compat_tests.recipes import eventually

Action = Callable[[FilledCluster, Browser], None]
_EVERY_RULE = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def topic_create(cluster: FilledCluster, browser: Browser) -> None:
    browser.open("/topics")
    browser.send("Create a topic", name="meanwhile", partitions="2", replicas="3", configs="min.insync.replicas=2")
    browser.await_text("Topic meanwhile was created")
    cluster.run("produce", "meanwhile", "--create", stdin="1\n2\n")
    assert sorted(values(cluster, "meanwhile")) == ["1", "2"]


def topic_config(cluster: FilledCluster, browser: Browser) -> None:
    browser.open("/topics/orders/configuration")
    browser.set_row("retention.ms", "3600000")
    browser.await_text("retention.ms of orders was set")
    words = ("config", "get", "topic", "orders", "retention.ms", "--output", "json")
    eventually(lambda: cluster.run(*words).json[0]["value"] == "3600000", what="brokers have the config")


def topic_alter(cluster: FilledCluster, browser: Browser) -> None:
    browser.open("/topics/orders/partitions")
    browser.send("Add partitions", partitions="4")
    browser.await_text("orders: 4 partitions")
    eventually(lambda: len(cluster.partitions("orders")) == 4, what="orders has four partitions")
    browser.open("/topics/doomed/partitions")
    browser.send("Add partitions, or change", replicas="2")
    browser.await_text("doomed-0: replicas")
    alive = {1, 2, 3} - {cluster.victim}
    eventually(
        lambda: [set(one.replicas) for one in cluster.partitions("doomed").values()] == [alive] * 3,
        what="doomed has two replicas, on the brokers that run",
    )


def record_produce(cluster: FilledCluster, browser: Browser) -> None:
    """Writes to a partition that the killed broker led, and to one without another replica."""
    browser.open("/topics/orders/messages?limit=1")
    browser.send("Write a record", key="new", value='{"n": 1}', partition=str(cluster.orders_partition))
    browser.await_text(f"Written to orders-{cluster.orders_partition} at offset")
    assert '{"n": 1}' in values(cluster, "orders")
    browser.open(f"/topics/alone/messages?limit=1&partition={(cluster.alone_partition + 1) % 3}")
    browser.send("Write a record", value="lost", partition=str(cluster.alone_partition))
    browser.await_text(f"alone-{cluster.alone_partition} has no leader")


def topic_trim(cluster: FilledCluster, browser: Browser) -> None:
    browser.open("/topics/orders/partitions")
    browser.send("Delete old records", partition=str(cluster.orders_partition), before="2")
    browser.await_text(f"Deleted records of orders-{cluster.orders_partition}: before offset 2")
    assert watermarks(cluster.bootstrap, "orders", cluster.orders_partition)[0] == 2
    browser.open("/topics/alone/partitions")
    browser.send("Delete old records", before="end")
    browser.await_text(f"alone-{cluster.alone_partition}: no leader now, and nothing was deleted")


def topic_delete(cluster: FilledCluster, browser: Browser) -> None:
    browser.open("/topics/doomed/partitions")
    browser.send("Delete the topic", confirm="doomed")
    browser.await_text("Topic doomed was deleted")
    eventually(lambda: "doomed" not in cluster.client().list_topics(timeout=DEADLINE_S).topics, what="doomed is gone")


def group_reset(cluster: FilledCluster, browser: Browser) -> None:
    """Resets a group that the killed broker coordinated, and a share group."""
    browser.open(f"/groups/{cluster.group}")
    browser.send("Reset offsets", to="5", topic="orders:0,1,2")
    browser.await_text("Nothing has changed yet")
    browser.press_button("main form[method=post] button")
    browser.await_text(f"Set 3 offsets of group {cluster.group}")
    lags = cluster.run("group", "lag", cluster.group, "--output", "jsonl").lines
    assert [one["committed"] for one in lags] == [5, 5, 5]
    browser.open("/groups/sharers/reset?to=beginning")
    browser.await_text("Nothing has changed yet")
    browser.press_button("main form[method=post] button")
    browser.await_text("Set 1 offset of group sharers")


def group_delete(cluster: FilledCluster, browser: Browser) -> None:
    browser.open(f"/groups/{cluster.doomed_group}")
    browser.send("Delete the group", confirm=cluster.doomed_group)
    browser.await_text(f"Group {cluster.doomed_group} was deleted")
    names = {one["group"] for one in cluster.run("group", "list", "--output", "jsonl").lines}
    assert cluster.group in names and cluster.doomed_group not in names


def transaction_abort(cluster: FilledCluster, browser: Browser) -> None:
    browser.open("/transactions")
    browser.confirm("form[action='/transactions/abort'] button")
    browser.await_text(f"The transaction of {cluster.transaction} was aborted")
    with pytest.raises(KafkaException):  # fenced
        cluster.producer.commit_transaction(DEADLINE_S)
    assert values(cluster, "ledger") == []


def transaction_abort_hanging(cluster: FilledCluster, browser: Browser) -> None:
    browser.open(f"/transactions/hanging?topic={TOPIC}")
    browser.confirm("form[action='/transactions/abort-hanging'] button")
    browser.await_text(f"The hanging transaction in {TOPIC}-0 was aborted.")
    browser.open(f"/transactions/hanging?topic={TOPIC}")
    browser.await_true(lambda: "No open transaction" in reloaded(browser))
    cluster.run("produce", TOPIC, "--create", stdin="found\n")
    assert values(cluster, TOPIC) == ["found"]


def dead_letters_redrive(cluster: FilledCluster, browser: Browser) -> None:
    browser.open("/share/dlq.work")
    browser.send("Redrive", first="0")
    browser.await_text("Wrote 1 record of dlq.work")
    assert values(cluster, "work") == ['{"job": "broken"}'] * 2


def acl_create(cluster: FilledCluster, browser: Browser) -> None:
    browser.open("/access")
    browser.send("Create an ACL", principal="bob", name="orders")
    browser.await_text("The ACL of User:bob was created")
    eventually(lambda: rules(cluster) == [("User:bob", "orders")], what="brokers have the rule")


def acl_delete(cluster: FilledCluster, browser: Browser) -> None:
    press(browser, "/access", "form[action='/access/acls/delete'] button")
    browser.await_text("The ACL of User:bob was deleted")
    eventually(lambda: rules(cluster) == [], what="brokers have no rule")


def user_set(cluster: FilledCluster, browser: Browser) -> None:
    browser.open("/access")
    browser.send("Create a user", user="greta", password="correct horse")
    browser.await_text("The credentials of greta were set")
    eventually(lambda: users(cluster) == ["greta"], what="brokers have the user")


def user_delete(cluster: FilledCluster, browser: Browser) -> None:
    press(browser, "/access", "form[action='/access/users/delete'] button")
    browser.await_text("credentials of greta were deleted")
    eventually(lambda: users(cluster) == [], what="brokers have no user")


def quota_set(cluster: FilledCluster, browser: Browser) -> None:
    browser.open("/access")
    browser.send("Set a quota", user="greta", key="producer_byte_rate", quota="1048576")
    browser.await_text("producer_byte_rate was set")
    eventually(lambda: quotas(cluster), what="brokers have the quota")


def quota_delete(cluster: FilledCluster, browser: Browser) -> None:
    press(browser, "/access", "form[action='/access/quotas/delete'] button")
    browser.await_text("producer_byte_rate was deleted")
    eventually(lambda: not quotas(cluster), what="brokers have no quota")


#: The route of each action.
ACTIONS: dict[str, Action] = {
    "/topics": topic_create,
    "/topics/{topic}/config": topic_config,
    "/topics/{topic}/alter": topic_alter,
    "/topics/{topic}/messages": record_produce,
    "/topics/{topic}/trim": topic_trim,
    "/topics/{topic}/delete": topic_delete,
    "/groups/{group}/reset": group_reset,
    "/groups/{group}/delete": group_delete,
    "/transactions/abort": transaction_abort,
    "/transactions/abort-hanging": transaction_abort_hanging,
    "/share/{topic}/redrive": dead_letters_redrive,
    "/access/acls": acl_create,
    "/access/acls/delete": acl_delete,
    "/access/users": user_set,
    "/access/users/delete": user_delete,
    "/access/quotas": quota_set,
    "/access/quotas/delete": quota_delete,
}

# ---- what clients of their own see


def press(browser: Browser, path: str, selector: str) -> None:
    """Presses a button of the page and accepts its question. A broker may have the newest change a moment later."""
    browser.open(path)
    browser.await_true(lambda: browser.all(selector) or browser.driver.refresh())
    browser.confirm(selector)


def values(cluster: FilledCluster, topic: str) -> list[str]:
    """Values of the committed records."""
    lines = cluster.run("consume", topic, "--from-beginning", "--output", "jsonl").lines
    return [one["value"] for one in lines]


def rules(cluster: FilledCluster) -> list[tuple[str, str]]:
    client = cluster.client()
    return [(one.principal, one.name) for one in client.describe_acls(_EVERY_RULE).result(DEADLINE_S)]


def users(cluster: FilledCluster) -> list[str]:
    client = cluster.client()
    return sorted(client.describe_user_scram_credentials().result(DEADLINE_S))


def quotas(cluster: FilledCluster) -> list[Any]:
    found: list[Any] = cluster.run("quota", "list", "--output", "jsonl").lines
    return found
