"""The console: a Kafka cluster in the browser. docs/development/console.md is the design."""
