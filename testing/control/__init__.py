"""The control port: what the test kit does, over HTTP on the loopback address, for test suites in other languages."""
