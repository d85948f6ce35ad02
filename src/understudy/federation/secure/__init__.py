"""Masked sums: the building blocks of secure aggregation."""
