"""Moves bytes between peers: gRPC with mutual TLS, deadlines, limits and a circuit breaker."""

import os

# The library writes to stderr of every handshake that fails, as port scanners cause; what matters
# is counted and logged here. It looks at this once, when it is first imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
