"""Every configuration key of Kafka 4.4: type, default, check, scope."""
