"""Studies: many settings, each an experiment of its own, run and shown by one command."""
