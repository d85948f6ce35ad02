"""What left each client, and what it says about a record."""
