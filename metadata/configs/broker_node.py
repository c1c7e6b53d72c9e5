"""Broker configs for the node itself, the controller quorum and the metadata log."""

from __future__ import annotations

from .checks import at_least, list_of, quorum_bootstrap_servers, quorum_voters
from .inert import ONE_FLUSH, OWN_TIMES, TEST_ONLY
from .key import BOOLEAN, FOREVER, INT, LIST, LONG, NO_DEFAULT, STRING, key

KEYS = (
    key("broker.id", INT, -1),
    key("broker.rack", STRING),
    key("controller.listener.names", LIST, NO_DEFAULT, list_of(empty=False)),
    key("controller.performance.always.log.threshold.ms", LONG, 2000, at_least(0), internal=True, inert=TEST_ONLY),
    key("controller.performance.sample.period.ms", LONG, 60_000, at_least(100), internal=True, inert=TEST_ONLY),
    key("controller.quorum.append.linger.ms", INT, 25, at_least(0), inert=ONE_FLUSH),
    key("controller.quorum.auto.join.enable", BOOLEAN, False),
    key("controller.quorum.bootstrap.servers", LIST, (), quorum_bootstrap_servers),
    key("controller.quorum.election.backoff.max.ms", INT, 1000, at_least(0)),
    key("controller.quorum.election.timeout.ms", INT, 1000, at_least(0)),
    key("controller.quorum.fetch.max.bytes", INT, 1_048_576, at_least(1)),
    key("controller.quorum.fetch.snapshot.max.bytes", INT, 1_048_576, at_least(1)),
    key("controller.quorum.fetch.timeout.ms", INT, 2000, at_least(0)),
    key("controller.quorum.request.timeout.ms", INT, 2000, at_least(0)),
    key("controller.quorum.retry.backoff.ms", INT, 20, at_least(0)),
    key("controller.quorum.voters", LIST, (), quorum_voters),
    key("controller.quota.window.num", INT, 11, at_least(1)),
    key("controller.quota.window.size.seconds", INT, 1, at_least(1)),
    key("controller.socket.timeout.ms", INT, 30_000, inert=OWN_TIMES),
    key("initial.broker.registration.timeout.ms", INT, 60_000),
    key("internal.metadata.delete.delay.millis", LONG, 60_000, internal=True, inert=TEST_ONLY),
    key("internal.metadata.log.segment.bytes", INT, internal=True),
    key("internal.metadata.max.batch.size.in.bytes", INT, 8_388_608, internal=True, inert=TEST_ONLY),
    key("metadata.log.dir", STRING),
    key("metadata.log.max.record.bytes.between.snapshots", LONG, 20_971_520, at_least(1)),
    key("metadata.log.max.snapshot.interval.ms", LONG, 3_600_000, at_least(0)),
    key("metadata.log.segment.bytes", INT, 1_073_741_824, at_least(8_388_608)),
    key("metadata.log.segment.ms", LONG, 604_800_000),
    key("metadata.max.idle.interval.ms", INT, 500, at_least(0)),
    key("metadata.max.retention.bytes", LONG, 104_857_600),
    key("metadata.max.retention.ms", LONG, 604_800_000),
    key("node.id", INT, NO_DEFAULT, at_least(0)),
    key("process.roles", LIST, NO_DEFAULT, list_of("broker", "controller", empty=False)),
    key("server.max.startup.time.ms", LONG, FOREVER, at_least(0), internal=True, inert=TEST_ONLY),
    key("unstable.api.versions.enable", BOOLEAN, False, internal=True, inert=TEST_ONLY),
    key("unstable.feature.versions.enable", BOOLEAN, False, internal=True, inert=TEST_ONLY),
)
