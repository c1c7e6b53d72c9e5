"""Commands that are clients: they speak the Kafka protocol to any cluster, through confluent-kafka and kafka-python."""
