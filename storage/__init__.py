"""Bytes on disk, in the files of Apache Kafka."""
