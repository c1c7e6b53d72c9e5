"""Mirrors of a cluster beside Apache Kafka's MirrorMaker 2."""
