"""Commands that are clients: they use the Kafka protocol with any cluster, through confluent-kafka and odradek.admin."""
