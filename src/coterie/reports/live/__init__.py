"""What `coterie watch` shows: a run while it goes on, in a browser or a terminal."""
