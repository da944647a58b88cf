"""Bytes: the messages of the protocol, and models as checked bytes. Nothing here does I/O."""
