"""What `coterie compare` says: strategies side by side, and which differences are luck."""
