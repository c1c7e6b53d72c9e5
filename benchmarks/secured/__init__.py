"""Cost of security beside Apache Kafka: TLS, handshakes, logins, access rules and quotas."""
