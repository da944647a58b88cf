"""The wire format: messages of the protocol, and models as checked bytes. No I/O here."""
