"""The parts of docs/performance.md: what is kept, and its texts."""
