"""Reasons why a key has no effect: the end of the sentence "it has no effect, because ...".

A key without a reason takes effect. When a feature is implemented, the reasons of its keys are removed.
"""

from __future__ import annotations

THREADS = "one event loop does the work, so there are no thread pools to size"
BUFFERS = "memory is taken as the work needs it, not from a buffer of a fixed size"
WAITING = "replies that wait are dropped from memory as soon as they are given, so nothing needs to be purged"
OWN_TIMES = "what nodes ask of each other has times of its own"
OWN_BUFFERS = "the system sizes the buffers of connections between nodes"
ONE_FLUSH = "what is appended to the metadata log during a flush shares the next one, and nothing waits for company"
TIERED = "tiered storage is not built"
KERBEROS = "the Kerberos library gets and renews the tickets of logins between nodes, from the keytab"
TOKEN_CHECKS = "sasl.server.callback.handler.class chooses what checks tokens"
OPENSSL = "OpenSSL does what Java's providers of TLS do there"
TLS_VERSIONS = "ssl.enabled.protocols decides which versions of TLS are offered"
TWO_PHASE_COMMIT = "two-phase commit (KIP-939) is not offered: Kafka's own is unstable yet"
CONSUMER_AT_ONCE = "assignments of consumer groups are worked out before the answer"
SHARE_BOUNDS = "it only bounds what a share group may set for itself"
SHARE_AT_ONCE = "assignments of share groups are worked out before the answer"
ONE_ASSIGNOR = "the simple assignor is the only one that there is for share groups"
STREAMS_BOUNDS = "it only bounds what a streams group may set for itself"
STREAMS_AT_ONCE = "assignments of streams groups are worked out before the answer"
STREAMS_ASSIGNOR = "there is one assignor for streams groups, sticky"
NO_WARMUP_TASKS = "warm-up tasks are not assigned, as Kafka 4.4 itself does not yet"
QUOTAS = "moves of replicas between log directories are not throttled"
DESCRIPTIONS = "descriptions of topologies are kept with their groups, whatever class is named"
JAVA = "a Java class cannot be loaded here"
COUNTERS = "metrics are plain counters, and the scraper chooses the window"
ONE_TURN = "a group coordinator writes together what one turn of the event loop decides"
WITH_RECOVERY_POINTS = (
    "the starts of logs are noted with their recovery points (log.flush.offset.checkpoint.interval.ms)"
)
TEST_ONLY = "it only serves Apache Kafka's own tests"
