"""Analyses of recorded runs: pure functions from tables to tables."""
