"""Changes and descriptions of many topics: some of them in a request, each with its own result."""

from __future__ import annotations

from unittest.mock import patch

import odradek
import pytest
from odradek.admin import config_changes, configs, topic_changes
from odradek.admin.config_changes import alter_topic_configs
from odradek.admin.configs import describe_topic_configs, own_configs
from odradek.admin.connection import Connection
from odradek.admin.session import Admin
from odradek.admin.topic_batches import delete_topics
from odradek.admin.topic_changes import NewTopic, TopicResult, create_topics, wait_for_topics
from odradek.client.user_errors import UserError
from odradek.protocol.errors import ErrorCode

TOPICS = [f"topic-{number}" for number in range(5)]


@pytest.mark.usefixtures("sockets")
def test_configs_of_topics_are_changed_and_described_in_several_requests() -> None:
    with odradek.Broker() as broker, Connection({"bootstrap.servers": broker.bootstrap_servers}).admin() as admin:
        create_topics(admin, dict.fromkeys(TOPICS, NewTopic(1, 1)))
        wait_for_topics(admin, TOPICS)
        changes = {name: {"retention.ms": ("SET", f"{number}000")} for number, name in enumerate(TOPICS, 1)}
        with (
            patch.object(config_changes, "_AT_ONCE", 2),
            patch.object(configs, "_AT_ONCE", 2),
            patch.object(Admin, "ask_controller", autospec=True, side_effect=Admin.ask_controller) as changed,
            patch.object(Admin, "ask", autospec=True, side_effect=Admin.ask) as asked,
        ):
            results = list(alter_topic_configs(admin, {**changes, "absent": {"retention.ms": ("SET", "1")}}))
            assert changed.call_count == 3
            found = describe_topic_configs(admin, [*TOPICS, "absent"], ["retention.ms"])
            assert asked.call_count == 3
        assert [one.resource_name for one in results if one.error_code] == ["absent"]
        assert {name: one["retention.ms"].value for name, one in found.items()} == {
            name: change["retention.ms"][1] for name, change in changes.items()
        }
        (result,) = alter_topic_configs(admin, {TOPICS[0]: {"retention.ms": ("DELETE", None)}})
        assert result.error_code == 0 and own_configs(admin, TOPICS[0]) == {}


def test_error_of_a_deletion_has_the_words_of_the_broker() -> None:
    results = [TopicResult("a", 0), TopicResult("b", ErrorCode.POLICY_VIOLATION, "not on a Friday")]
    with patch.object(topic_changes, "delete_topics", return_value=results), pytest.raises(UserError) as raised:
        delete_topics(Admin.__new__(Admin), ["a", "b"], if_exists=False, dry_run=False)
    assert str(raised.value) == "topic b: not on a Friday (POLICY_VIOLATION); deleted nevertheless: a"
