"""FedLAP-DP: Federated Learning by Sharing Differentially Private Loss Approximations."""
