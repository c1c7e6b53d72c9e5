"""Former place of `odradek.testing`: the names that earlier versions documented still work."""
