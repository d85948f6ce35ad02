"""One run, and what can be asked of it."""
