"""Accuracy against leak against megabytes, for every kind of stand-in."""
