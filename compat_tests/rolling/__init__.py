"""Rolling restarts under load, by client and kind of group, on Odradek and on Apache Kafka."""
