"""Throughput of clients with a quota beside a client without one."""
