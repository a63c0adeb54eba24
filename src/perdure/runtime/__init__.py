"""Runs: journaled steps and tools, leases, recovery, pauses, workers."""
