"""Reasons why a key has no effect: the end of the sentence "it has no effect, because ...".

A key without a reason takes effect. When a feature is implemented, the reasons of its keys are removed.
"""

from __future__ import annotations

THREADS = "one event loop does the work, so there are no thread pools to size"
BUFFERS = "memory is allocated when it is needed, not from a buffer of a fixed size"
WAITING = "delayed responses are freed as soon as they are sent, so there is nothing to purge"
OWN_TIMES = "requests between nodes have their own timeouts"
OWN_BUFFERS = "the operating system sizes the buffers of connections between nodes"
ONE_FLUSH = "records that are appended to the metadata log during a flush share the next flush, without a further wait"
IN_MEMORY = "indexes of remote segments are in memory, and the least recently used ones go first"
FOUR_POOLS = "copies, deletions, reads and followers have thread pools with keys of their own"
BETWEEN_BROKERS = "the metadata of remote segments is exchanged on the listener between brokers"
KERBEROS = "the Kerberos library gets and renews the tickets of logins between nodes, from the keytab"
TOKEN_CHECKS = "sasl.server.callback.handler.class names the class that checks tokens"
OPENSSL = "OpenSSL takes the place of Java's TLS providers"
TLS_VERSIONS = "ssl.enabled.protocols names the TLS versions that are offered"
TWO_PHASE_COMMIT = "two-phase commit (KIP-939) is not supported: it is still unstable in Kafka"
CONSUMER_AT_ONCE = "assignments of consumer groups are computed before the response is sent"
SHARE_BOUNDS = "it is only a limit for the config of the same name of share groups"
SHARE_AT_ONCE = "assignments of share groups are computed before the response is sent"
ONE_ASSIGNOR = "share groups have only the simple assignor"
STREAMS_BOUNDS = "it is only a limit for the config of the same name of streams groups"
STREAMS_AT_ONCE = "assignments of streams groups are computed before the response is sent"
STREAMS_ASSIGNOR = "streams groups have only the sticky assignor"
NO_WARMUP_TASKS = "warm-up tasks are not assigned; Kafka 4.4 does not assign them either"
QUOTAS = "moves of replicas between log directories are not throttled"
DESCRIPTIONS = "topology descriptions are stored with their groups, whatever class is named"
JAVA = "a Java class cannot be loaded here"
COUNTERS = "metrics are plain counters; the monitoring system computes rates"
ONE_TURN = "a group coordinator writes all records of one event loop iteration together"
WITH_RECOVERY_POINTS = (
    "log start offsets are written with the recovery points (log.flush.offset.checkpoint.interval.ms)"
)
TEST_ONLY = "the key is only for Apache Kafka's own tests"
