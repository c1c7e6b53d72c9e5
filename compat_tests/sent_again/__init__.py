"""A broker rejects a batch of an idempotent producer while the next batch is in flight: is each record there exactly once?
librdkafka runs through gates of our own against three nodes, of Odradek or of Apache Kafka:
`python -m compat_tests.sent_again --kind apache`.
"""
