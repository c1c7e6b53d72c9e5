"""Replicas at work: following, ISR, cleaning, scrubbing, healing, moves."""
