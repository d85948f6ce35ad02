"""Ways to deal a data set out to clients."""
