"""What `coterie figures` draws: the figures of papers, from runs of your own."""
