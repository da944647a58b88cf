"""Measures the speed of this machine: torch, compiled code, and a whole round."""
