"""Studies: many experiments that one command runs and shows."""
