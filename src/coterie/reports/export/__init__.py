"""The formats of `coterie export`, for other programs."""
