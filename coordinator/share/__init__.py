"""Share groups (KIP-932): several members read one partition together, and each record is acknowledged on its own."""
