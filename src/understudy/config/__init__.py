"""A run in words: read, checked, every default spelled out, and built into network and method."""
