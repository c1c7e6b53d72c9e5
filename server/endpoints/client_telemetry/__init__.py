"""The APIs of client telemetry (KIP-714), served only where something receives metrics."""
