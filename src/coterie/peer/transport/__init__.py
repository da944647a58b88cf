"""Transport between peers: gRPC with mutual TLS, deadlines and limits."""

import os

# The library logs every failed handshake to stderr, such as those of port scanners; what matters
# is counted and logged here. It reads this variable once, when it is first imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
