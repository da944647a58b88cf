"""The compiled trainer: one call runs a peer's whole local training, without Python or autograd."""
