"""The config of a run: read, checked, every default spelled out, and built into network and method."""
