"""`odradek acl`, `user` and `quota`: who may do what, and how much."""
