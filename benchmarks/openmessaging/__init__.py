"""Workloads of the OpenMessaging Benchmark, run against three nodes of Odradek and three of Apache Kafka."""
