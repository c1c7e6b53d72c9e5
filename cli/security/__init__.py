"""`odradek acl`, `user` and `quota`: access rules, users and quotas."""
