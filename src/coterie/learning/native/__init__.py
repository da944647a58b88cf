"""The compiled trainer: a peer's whole local training in one call, without Python or autograd."""
