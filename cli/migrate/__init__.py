"""`odradek migrate`: the way of a cluster from Apache Kafka to Odradek, and back."""
