"""A batch of an idempotent producer is refused, and the next one is under way: is each record there once in the end?
librdkafka with the network of our own between it and three nodes, ours or Apache Kafka's:
`python -m compat_tests.sent_again --kind apache`.
"""
