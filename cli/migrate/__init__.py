"""`odradek migrate`: plans and watches the way of a cluster from Apache Kafka to Odradek, and back."""
