"""Apache's tools, each as a function of its arguments."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compat_tests.java.tool import ToolHost, ToolResult, run_tool

Tool = Callable[..., ToolResult]

#: The class of each tool, and its option for the broker's address.
_TOOLS = {
    "topics": ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server"),
    "acls": ("org.apache.kafka.tools.AclCommand", "--bootstrap-server"),
    "configs": ("kafka.admin.ConfigCommand", "--bootstrap-server"),
    "groups": ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server"),
    "share_groups": ("org.apache.kafka.tools.consumer.group.ShareGroupCommand", "--bootstrap-server"),
    "offsets": ("org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server"),
    "delete_records": ("org.apache.kafka.tools.DeleteRecordsCommand", "--bootstrap-server"),
    "log_dirs": ("org.apache.kafka.tools.LogDirsCommand", "--bootstrap-server"),
    "cluster": ("org.apache.kafka.tools.ClusterTool", None),
    "features": ("org.apache.kafka.tools.FeatureCommand", "--bootstrap-server"),
    "quorum": ("org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-server"),
    "versions": ("org.apache.kafka.tools.BrokerApiVersionsCommand", "--bootstrap-server"),
    "elections": ("org.apache.kafka.tools.LeaderElectionCommand", "--bootstrap-server"),
    "reassign": ("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--bootstrap-server"),
    "transactions": ("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server"),
    "client_metrics": ("org.apache.kafka.tools.ClientMetricsCommand", "--bootstrap-server"),
    "all_groups": ("org.apache.kafka.tools.GroupsCommand", "--bootstrap-server"),
    "console_producer": ("org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server"),
    "console_consumer": ("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server"),
    "producer_performance": ("org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server"),
    "consumer_performance": ("org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server"),
    "console_share_consumer": ("org.apache.kafka.tools.consumer.ConsoleShareConsumer", "--bootstrap-server"),
    "share_performance": ("org.apache.kafka.tools.ShareConsumerPerformance", "--bootstrap-server"),
    "verifiable_share_consumer": ("org.apache.kafka.tools.VerifiableShareConsumer", "--bootstrap-server"),
    "verifiable_producer": ("org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server"),
    "verifiable_consumer": ("org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server"),
    "latency": ("org.apache.kafka.tools.EndToEndLatency", "--bootstrap-server"),
}

#: Tools that need their own JVM, because they finish their work in a shutdown hook.
_SINGLE_NODE_DEFAULTS = {"verifiable_producer"}


@pytest.fixture
def tool(tools: ToolHost, bootstrap: str) -> Tool:
    """`tool("topics", "--list")` runs a tool against the broker. Its result is not checked."""

    def run(name: str, *arguments: str, stdin: str = "", timeout: float = 60) -> ToolResult:
        class_name, option = _TOOLS[name]
        address = (option, bootstrap) if option else ()
        if name in _SINGLE_NODE_DEFAULTS:
            return run_tool(class_name, *address, *arguments, stdin=stdin, timeout=timeout)
        return tools.run(class_name, *address, *arguments, stdin=stdin, timeout=timeout)

    return run
