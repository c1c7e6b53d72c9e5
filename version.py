"""The version of Odradek, and the level of Apache Kafka that it speaks."""

__version__ = "0.1.0"
#: The release of which the protocol, the configuration keys and the record formats are.
KAFKA_LEVEL = "4.4"
