"""Damaged files, for `fuzz_files.py`."""
