"""The data of the figures: each module has a function from a run group to plain data."""
