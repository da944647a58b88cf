"""The live view of `coterie watch` and `coterie run --watch`, in a browser or a terminal."""
