"""A connector of Iceberg's sink: JSON records to a table that it creates in a folder of `odradek archive --warehouse`."""

from __future__ import annotations

from pathlib import Path


def iceberg_connector(topic: str, table: str, warehouse: Path, *, commit_ms: int) -> dict[str, str]:
    """The namespace of `table` and the control topic exist."""
    return {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": "2",
        "topics": topic,
        "iceberg.tables": table,
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.control.topic": f"{topic}-control",
        "iceberg.control.commit.interval-ms": str(commit_ms),
        "iceberg.catalog": "odradek",
        "iceberg.catalog.type": "jdbc",
        "iceberg.catalog.uri": f"jdbc:sqlite:{warehouse}/catalog.db",
        "iceberg.catalog.warehouse": warehouse.as_uri(),
        "consumer.override.auto.offset.reset": "earliest",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
