"""The papers' theory, checked by measurement."""
