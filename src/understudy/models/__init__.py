"""Networks by name, and a network as a function of one flat vector."""
