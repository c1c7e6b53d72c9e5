"""Whose doing is it when an idempotent producer's record stands twice? librdkafka with the network of our own between it
and three nodes, ours or Apache Kafka's: `python -m compat_tests.sent_again --kind apache`.
"""
