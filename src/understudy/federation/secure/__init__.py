"""Sums under masks: what the phases of secure aggregation are made of."""
