"""The parts of docs/reproduction.md: kept results of experiments and tables."""
