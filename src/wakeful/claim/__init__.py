"""Claim: how many jobs to ask for, of which queues, from which place in line."""
