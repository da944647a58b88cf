"""What the tables of a run say about its strategy: pure functions from tables to tables."""
