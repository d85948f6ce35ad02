"""Clients on a Ray cluster. The room is not called `ray`, which is the library's own name."""
