"""What `coterie bench` measures: torch beside compiled code, and a whole round, on this machine."""
