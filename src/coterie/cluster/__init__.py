"""Runs on a Ray cluster. Ray is imported only here, and only when it is used."""
