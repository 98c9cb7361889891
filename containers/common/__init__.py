"""What the four implementations share: the run contract, the MLLOG writer, clearing the cache."""
