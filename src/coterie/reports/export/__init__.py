"""What `coterie export` writes: runs in the formats of other programs."""
