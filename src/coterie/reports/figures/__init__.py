"""The figures of `coterie figures`: those of the papers, from run folders."""
