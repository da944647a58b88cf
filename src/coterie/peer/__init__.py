"""One real peer: the same strategies as in the simulator, on its own data, over a network."""
