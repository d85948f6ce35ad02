"""Examples, data sets, splits, and how skewed a split is."""
