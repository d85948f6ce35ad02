"""Synthetic data shuffling accelerates the convergence of federated learning under data heterogeneity."""
