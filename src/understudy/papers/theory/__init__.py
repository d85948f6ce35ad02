"""The papers' theory, measured."""
